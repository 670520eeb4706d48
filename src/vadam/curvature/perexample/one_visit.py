"""The gradient of a linear layer's weight as the sum of its examples' gradients, which the squares have to visit anyhow.

Where every example has many positions, Σᵢ (Σₜ z_it a_itᵀ)² takes a product for each example. Their sum is the gradient: the product
over all examples at once, which autograd would compute besides, is saved.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as all_modules

from vadam.curvature.perexample.call import Layer
from vadam.curvature.perexample.closed_forms import linear
from vadam.curvature.perexample.gradients import FEW_POSITIONS

PLAIN = (Tensor, nn.Parameter)
Arrival = Callable[[Tensor], dict[str, Any] | None]
"""Given the gradient at the output: those of the examples, or None if nobody asks for them."""


class Linear(torch.autograd.Function):
    """y = x Wᵀ + b, as the layer has computed it, with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, arrival: Arrival) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.arrival = arrival
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (z,), (x, weight) = grads, ctx.saved_tensors
        _, input_needs, _, bias_needs, _ = ctx.needs_input_grad
        of_examples = ctx.arrival(z)
        if of_examples is None:
            of_weight = z.flatten(0, -2).T @ x.flatten(0, -2)
            of_bias = z.flatten(0, -2).sum(0) if bias_needs else None
        else:
            of_weight = of_examples["weight"].total_through_examples()
            of_bias = of_examples["bias"].total() if bias_needs else None
        return None, z @ weight if input_needs else None, of_weight, of_bias, None


def suits(layer: Layer, x: Any, y: Tensor) -> bool:
    """Whether y is what this layer has computed, nobody in between, in one precision, for many positions of every example."""
    module = layer.module
    if layer.rule is not linear or layer.several_uses or not isinstance(x, Tensor) or x.ndim < 3:
        return False
    weight = layer.params.get("weight")
    ours = weight is not None and module.weight is weight and next(iter(module._forward_hooks)) == layer.hook
    alone = ours and not all_modules._global_forward_hooks and not torch.compiler.is_compiling()
    plain = alone and type(x) in PLAIN and type(y) in PLAIN and x.dtype == y.dtype == weight.dtype  # type: ignore[union-attr]
    positions = x.numel() // (x.shape[-1] * x.shape[1 if layer.sequence_first else 0]) if x.numel() else 0
    return plain and y.requires_grad and positions > FEW_POSITIONS
