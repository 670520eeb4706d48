"""Loss scaling and clipping of gradients, applied to a curvature that was computed before them."""

from __future__ import annotations

import torch
from torch import Tensor

from vadam.backends.bucket import Grads


class Norms:
    """The norms of the gradients or curvatures of some parameters: a vector on each device."""

    def __init__(self, vectors: list[tuple[list[Tensor], Tensor]]) -> None:
        self.vectors = vectors

    def by_param(self) -> Grads:
        """Return the norm of each parameter."""
        return {p: norm for params, values in self.vectors for p, norm in zip(params, values.unbind(), strict=True)}


def rescaled(h: Grads, before: Norms, now: Norms, degree: int) -> Grads:
    """Return the curvatures, scaled as their gradients were scaled since."""
    factors = scaling_factors(h, before, now, degree)
    return h if factors is None else {p: x * factors[p].to(x.dtype) for p, x in h.items()}


def scaling_factors(h: Grads, before: Norms, now: Norms, degree: int) -> Grads | None:
    """Return (now/before)^degree for each parameter, 1 where a norm is unknown or zero; None if nothing was scaled."""
    old, new = before.by_param(), now.by_param()
    factors: Grads = {}
    scaled = False
    for params in _by_device([p for p in h if p in old and p in new]):
        a, b = torch.stack([old[p] for p in params]), torch.stack([new[p] for p in params])
        scaled = scaled or not a.is_cpu or not torch.equal(a, b)
        ratio = torch.where(a > 0, b / a, torch.ones_like(a)).pow(degree)
        factors |= dict(zip(params, ratio.unbind(), strict=True))
    return {p: factors[p] if p in factors else x.new_ones(()) for p, x in h.items()} if scaled else None


def _by_device(params: list[Tensor]) -> list[list[Tensor]]:
    alike: dict[torch.device, list[Tensor]] = {}
    for p in params:
        alike.setdefault(p.device, []).append(p)
    return list(alike.values())
