"""The gradient of a linear layer's weight as the sum of its examples' gradients, which the squares have to visit anyhow.

Where every example has many positions, Σᵢ (Σₜ z_it a_itᵀ)² takes a product for each example. Their sum is the gradient: the product
over all examples at once, which autograd would compute besides, is saved.
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
Arrival = Callable[[Tensor], dict[str, Any] | None]
"""Given the gradient at the output: those of the examples, or None if nobody asks for them."""


class Linear(torch.autograd.Function):
    """y = x Wᵀ + b, as the layer has computed it, with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, arrival: Arrival) -> Tensor:
        ctx.save_for_backward(x, weight if x.requires_grad else None)
        ctx.arrival = arrival
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (z,), (x, weight) = grads, ctx.saved_tensors
        _, input_needs, _, bias_needs, _ = ctx.needs_input_grad
        with full_precision(z.device.type):
            of_examples = ctx.arrival(z) if _adds_to_gradients(ctx) else None
            if of_examples is None:
                rows = z.reshape(-1, z.shape[-1])
                of_weight = rows.t() @ x.reshape(-1, x.shape[-1])
                of_bias = rows.sum(0) if bias_needs else None
            else:
                of_weight = of_examples["weight"].total_through_examples()
                of_bias = of_examples["bias"].total() if bias_needs else None
            return None, z @ weight if input_needs else None, of_weight, of_bias, None


def _adds_to_gradients(ctx: Any) -> bool:
    """Whether this backward pass adds to the gradient of weight or bias, or asks for others only."""
    _, _, *params = ctx.next_functions
    try:
        return any(node is not None and torch._C._will_engine_execute_node(node) for node, _ in params)
    except RuntimeError:  # what it says under torch.autograd.grad, which adds to no gradient
        return False


def suits(layer: Layer, x: Any, y: Tensor) -> bool:
    """Whether y is what this layer has computed, nobody in between, in one precision, for many positions of every example."""
    module = layer.module
    if layer.rule is not linear or layer.several_uses or not isinstance(x, Tensor) or x.ndim < 3:
        return False
    weight = layer.params.get("weight")
    if weight is None or module.weight is not weight or not (weight.requires_grad and weight.is_floating_point()):
        return False
    first = next(iter(module._forward_hooks)) == layer.hook and not all_modules._global_forward_hooks
    plain = type(x) in PLAIN and type(y) in PLAIN and x.dtype == y.dtype == weight.dtype and not _is_special()
    positions = x.numel() // (x.shape[-1] * x.shape[1 if layer.sequence_first else 0]) if x.numel() else 0
    return first and plain and y.requires_grad and positions > FEW_POSITIONS


def _is_special() -> bool:
    """Forward-mode derivatives, compilation; and checkpointing, where a second run must save the same tensors as the first did."""
    checkpointed = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    return checkpointed or forward_ad._current_level >= 0 or torch.compiler.is_compiling()
