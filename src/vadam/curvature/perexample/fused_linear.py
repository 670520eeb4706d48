"""The gradient of a linear layer's weight as the sum of per-example gradients that the squares need anyway.

Where every example has many positions, Σᵢ (Σₜ z_it a_itᵀ)² takes one matrix product for each example. The sum of these
products is the gradient, so ``FusedLinear`` saves the product over all examples that autograd would compute besides.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as all_modules

from vadam.curvature.perexample.call import Layer, full_precision
from vadam.curvature.perexample.closed_forms import linear
from vadam.curvature.perexample.gradients import FEW_POSITIONS

PLAIN = (Tensor, nn.Parameter)
OnGrad = Callable[[Tensor], dict[str, Any] | None]
"""A function from the gradient at the output to per-example gradients, or to None if nobody asks for them."""


class FusedLinear(torch.autograd.Function):
    """Pass on y = x Wᵀ + b as the layer has computed it, with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, on_grad: OnGrad) -> Tensor:
        ctx.save_for_backward(x, weight if x.requires_grad else None)
        ctx.on_grad = on_grad
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (z,), (x, weight) = grads, ctx.saved_tensors
        _, input_needs, _, bias_needs, _ = ctx.needs_input_grad
        with full_precision(z.device.type):
            per_example = ctx.on_grad(z) if _adds_to_gradients(ctx) else None
            if per_example is None:
                rows = z.reshape(-1, z.shape[-1])
                weight_grad = rows.t() @ x.reshape(-1, x.shape[-1])
                bias_grad = rows.sum(0) if bias_needs else None
            else:
                weight_grad = per_example["weight"].total_through_examples()
                bias_grad = per_example["bias"].total() if bias_needs else None
            return None, z @ weight if input_needs else None, weight_grad, bias_grad, None


def _adds_to_gradients(ctx: Any) -> bool:
    """Return True if this backward pass adds to the gradient of weight or bias."""
    _, _, *params = ctx.next_functions
    try:
        return any(node is not None and torch._C._will_engine_execute_node(node) for node, _ in params)
    except RuntimeError:  # raised under torch.autograd.grad, which adds to no gradient
        return False


def applies_to(layer: Layer, x: Any, y: Tensor) -> bool:
    """Return True if y is what this layer has computed, in one precision, for many positions of every example."""
    module = layer.module
    if layer.rule is not linear or layer.is_reused or not isinstance(x, Tensor) or x.ndim < 3:
        return False
    weight = layer.params.get("weight")
    if weight is None or module.weight is not weight or not (weight.requires_grad and weight.is_floating_point()):
        return False
    first = next(iter(module._forward_hooks)) == layer.hook_id and not all_modules._global_forward_hooks
    plain = type(x) in PLAIN and type(y) in PLAIN and x.dtype == y.dtype == weight.dtype and not _is_special()
    positions = x.numel() // (x.shape[-1] * x.shape[1 if layer.sequence_first else 0]) if x.numel() else 0
    return first and plain and y.requires_grad and positions > FEW_POSITIONS


def _is_special() -> bool:
    """Return True under forward-mode derivatives, compilation, and checkpointing, whose second run must save the same tensors."""
    checkpointed = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    return checkpointed or forward_ad._current_level >= 0 or torch.compiler.is_compiling()
