"""One draw of the weights: the seed of its noise, the means it put aside, and whether a gradient was taken there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef

from vadam.optim.distributed import sharded_like

if TYPE_CHECKING:
    from vadam.optim.pieces import Piece


Shift = Callable[[int, Tensor, float], None]


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
        pieces: list[Piece],
        watched: list[Tensor],
        unpaired_before: int | None = None,
    ) -> None:
        self.seed, self.sign, self.pieces = seed, sign, pieces
        self.params = [p for piece in pieces for p in piece.params]
        self.unpaired_before = unpaired_before
        self.means: list[Tensor | None] = []  # of the pieces that have been perturbed; None where it is not stored
        self.norms: dict[Tensor, Tensor] | None = (
            None  # of the gradients when the backward pass ended, where that is known
        )
        self._before = [GradientMark(p) for p in watched]

    def perturb(self, shift: Shift, *, store_mean: bool = True) -> None:
        """θ = μ + deviation, in place: ``shift(i, vector, sign)`` adds ± the deviation of piece i to a vector."""
        self._shift = shift
        for i, piece in enumerate(self.pieces):
            theta = piece.vector(piece.params)
            stored = store_mean or piece.dtype != piece.params[0].dtype  # half-precision weights would not come back
            self.means.append(theta.clone() if stored else None)
            shift(i, theta, 1.0)
            piece.write(theta, piece.params)

    @torch.no_grad()
    def restore(self) -> None:
        """θ = μ: bit for bit where the mean was stored, and then, interrupted, it can be called again."""
        while self.means:
            i = len(self.means) - 1
            piece, mean = self.pieces[i], self.means[i]
            if mean is None:
                mean = piece.vector(piece.params)
                self._shift(i, mean, -1.0)
            piece.write(mean, piece.params)
            self.means.pop()

    @torch.no_grad()
    def mean_of(self, p: Tensor) -> Tensor | None:
        """Of one parameter, in its own shape and dtype; None while it holds its mean."""
        for i, piece in enumerate(self.pieces[: len(self.means)]):
            for q, mean in zip(
                piece.params, piece.split(self._mean(i)) if p in set(piece.params) else (), strict=False
            ):
                if q is p:
                    return sharded_like(p, mean.to(p.dtype))
        return None

    def _mean(self, i: int) -> Tensor:
        stored = self.means[i]
        if stored is not None:
            return stored
        theta = self.pieces[i].vector(self.pieces[i].params).clone()
        self._shift(i, theta, -1.0)
        return theta

    def has_new_gradient(self) -> bool:
        return any(mark.is_outdated() for mark in self._before)
