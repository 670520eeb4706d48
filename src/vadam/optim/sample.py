"""One draw of the weights: the seed of its noise, the means it put aside, and whether a gradient was taken there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef


def storage_dtype(p: Tensor) -> torch.dtype:
    """State and noise of half-precision weights are kept in float32: an average with weight 0.999 does not move in bfloat16."""
    return torch.float32 if p.dtype in (torch.float16, torch.bfloat16) else p.dtype


class GradientMark:
    """Remembers a parameter's gradient, weakly: gradients that are cleared are freed before new ones are taken."""

    def __init__(self, p: Tensor) -> None:
        self.p = p
        self._grad = None if p.grad is None else TensorWeakRef(p.grad)
        self._version = -1 if p.grad is None else p.grad._version

    def is_outdated(self) -> bool:
        """Whether there is a gradient, and it is not the one that was remembered or has been written to."""
        grad = self.p.grad
        return grad is not None and (self._grad is None or self._grad() is not grad or self._version != grad._version)


class Sample:
    def __init__(
        self,
        seed: int,
        sign: float,
        drawn: list[tuple[dict[str, Any], Tensor]],
        watched: list[Tensor],
        unpaired_before: int | None = None,
    ) -> None:
        self.seed, self.sign, self.drawn = seed, sign, drawn
        self.params = [p for _, p in drawn]
        self.unpaired_before = unpaired_before
        self.means: list[Tensor] = []
        self.norms: dict[Tensor, Tensor] | None = (
            None  # of the gradients when the backward pass ended, where that is known
        )
        self._before = [GradientMark(p) for p in watched]

    def perturb(self, deviations: Iterable[Tensor]) -> None:
        """θ = μ + deviation, in place."""
        for p, deviation in zip(self.params, deviations, strict=True):
            self.means.append(p.detach().clone())
            p.add_(deviation) if p.dtype == deviation.dtype else p.copy_(deviation.add_(p))

    @torch.no_grad()
    def restore(self) -> None:
        """θ = μ, bit for bit. Interrupted, it can be called again."""
        for p, mean in zip(self.params, self.means, strict=False):
            p.copy_(mean)
        self.means = []

    def mean_of(self, p: Tensor) -> Tensor | None:
        return next((mean for q, mean in zip(self.params, self.means, strict=False) if q is p), None)

    def has_new_gradient(self) -> bool:
        return any(mark.is_outdated() for mark in self._before)
