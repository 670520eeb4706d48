"""Loss scaling and clipping of gradients, applied to a curvature that was computed before them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from vadam.backends.bucket import LIMIT, Grads, are_same
from vadam.backends.shards import local, sharded_like


class Norms:
    """The norms of the gradients or curvatures of some parameters: a vector on each device."""

    def __init__(self, vectors: list[tuple[list[Tensor], Tensor]]) -> None:
        self.vectors = vectors

    def by_param(self) -> Grads:
        """Return the norm of each parameter."""
        return {p: norm for params, values in self.vectors for p, norm in zip(params, values.unbind(), strict=True)}

    def equal(self, other: Norms) -> bool:
        """Return True if the norms of the same parameters are known to be equal; nothing is read from a device."""
        return len(self.vectors) == len(other.vectors) and all(
            are_same(params, others) and a.is_cpu and torch.equal(a, b)
            for (params, a), (others, b) in zip(self.vectors, other.vectors, strict=True)
        )


def rescaled(h: Grads, before: Norms, now: Norms, degree: Callable[[Tensor], int]) -> Grads:
    """Return the curvatures, scaled as their gradients were scaled since; ``degree`` is that of a parameter's curvature."""
    factors = scaling_factors(h, before, now, degree)
    if factors is None:
        return h
    scaled: Grads = {}
    for params in _alike(h, lambda p: (h[p].device, h[p].dtype)):
        for some in _batches(params):
            scaled |= _multiplied(some, [local(h[p]) for p in some], [factors[p] for p in some])
    return {p: scaled[p] for p in h}


def _multiplied(params: list[Tensor], tensors: list[Tensor], factors: list[Tensor]) -> Grads:
    """Return tensors times a factor each, by as many operations for a hundred as for one."""
    sizes = [x.numel() for x in tensors]
    each = torch.cat([factor.to(x.dtype).expand(n) for factor, x, n in zip(factors, tensors, sizes, strict=True)])
    parts = (torch.cat([x.reshape(-1) for x in tensors]) * each).split(sizes)
    return {p: sharded_like(p, part.view(x.shape)) for p, x, part in zip(params, tensors, parts, strict=True)}


def _batches(params: list[Tensor]) -> Iterable[list[Tensor]]:
    """Cut a list of parameters, so that what is computed for some of them together stays small beside a large model."""
    some, size = [params[0]], params[0].numel()
    for p in params[1:]:
        if size + p.numel() > LIMIT["accelerator"]:
            yield some
            some, size = [], 0
        some.append(p)
        size += p.numel()
    yield some


def scaling_factors(h: Grads, before: Norms, now: Norms, degree: Callable[[Tensor], int]) -> Grads | None:
    """Return (now/before)^degree for each parameter, 1 where a norm is unknown or zero; None if nothing was scaled."""
    if before.equal(now):
        return None
    old, new = before.by_param(), now.by_param()
    factors: Grads = {}
    scaled = False
    for params in _alike([p for p in h if p in old and p in new], lambda p: (p.device, degree(p))):
        a, b = torch.stack([old[p] for p in params]), torch.stack([new[p] for p in params])
        scaled = scaled or not a.is_cpu or not torch.equal(a, b)
        ratio = torch.where(a > 0, b / a, torch.ones_like(a)).pow(degree(params[0]))
        factors |= dict(zip(params, ratio.unbind(), strict=True))
    return {p: factors[p] if p in factors else x.new_ones(()) for p, x in h.items()} if scaled else None


def _alike(params: Iterable[Tensor], kind: Callable[[Tensor], Any]) -> list[list[Tensor]]:
    """Sort parameters by their kind."""
    alike: dict[Any, list[Tensor]] = {}
    for p in params:
        alike.setdefault(kind(p), []).append(p)
    return list(alike.values())
