"""Compute mean_i (∇f_i)² the slow, obvious way: one forward and one backward pass for every example."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def loop(
    model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor
) -> dict[nn.Parameter, Tensor]:
    """Return ĥ = (1/M) Σᵢ (∇fᵢ)² with fᵢ = loss_fn(model(x[i:i+1]), y[i:i+1]), for the parameters that get a gradient."""
    params = [p for p in model.parameters() if p.requires_grad]
    h: dict[nn.Parameter, Tensor] = {}
    for i in range(len(x)):
        loss = loss_fn(model(x[i : i + 1]), y[i : i + 1])
        for p, g in zip(params, torch.autograd.grad(loss, params, allow_unused=True), strict=True):
            if g is not None:
                h[p] = h.get(p, torch.zeros_like(p)) + g**2 / len(x)
    return {p: square.detach() for p, square in h.items()}
