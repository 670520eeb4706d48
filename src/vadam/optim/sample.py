"""One draw of the weights: the seed of its noise, the means it put aside, and whether a gradient was taken there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef

from vadam.optim.distributed import sharded_like

if TYPE_CHECKING:
    from vadam.optim.estimate import Norms
    from vadam.optim.kernels import Engine
    from vadam.optim.pieces import Piece


Shift = Callable[[int, Tensor, float], None]
AtOnce = Callable[[list[Tensor | None], ctypes.c_int64], None]


def storage_dtype(p: Tensor) -> torch.dtype:
    """State and noise of half-precision weights are kept in float32: an average with weight 0.999 does not move in bfloat16."""
    return torch.float32 if p.dtype in (torch.float16, torch.bfloat16) else p.dtype


def _is_half(piece: Piece) -> bool:
    """Half-precision weights would not come back from a deviation."""
    return piece.dtype != piece.params[0].dtype


class GradientMarks:
    """Remembers parameters' gradients, weakly: gradients that are cleared are freed before new ones are taken."""

    def __init__(self, params: list[Tensor]) -> None:
        grads = [(p, p.grad) for p in params]
        self._without = [p for p, g in grads if g is None]
        self._with = [(p, TensorWeakRef(g), g._version) for p, g in grads if g is not None]

    def any_is_new(self) -> bool:
        """Whether there is a gradient that is not the one that was remembered, or has been written to."""
        return any(p.grad is not None for p in self._without) or any(map(_is_new, self._with))

    def all_are_cleared(self) -> bool:
        """Whether all are gone, or new and zero."""
        with_gradient = [p for p in self._without if p.grad is not None]
        with_gradient += [mark[0] for mark in self._with if mark[0].grad is not None]
        new = {*self._without, *(mark[0] for mark in self._with if _is_new(mark))}
        return all(p in new and not p.grad.any() for p in with_gradient)  # type: ignore[union-attr]


def _is_new(mark: tuple[Tensor, TensorWeakRef, int]) -> bool:
    p, before, version = mark
    return p.grad is not None and (before() is not p.grad or p.grad._version != version)


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
        self.norms: Norms | None = None  # of the gradients when the backward pass ended, where that is known
        self.engine: Engine | None = None  # that has moved all pieces at once, and may update them so
        self._shift: Shift | None = None
        # Receipts of native calls: become 1 when all pieces have left their means, and when an update has written over the sample.
        self._moved: ctypes.c_int64 | None = None
        self._updated: ctypes.c_int64 | None = None
        self._before = GradientMarks(watched)

    def perturb(self, shift: Shift, *, store_mean: bool = True) -> None:
        """θ = μ + deviation, in place: ``shift(i, vector, sign)`` adds ± the deviation of piece i to a vector."""
        self._shift = shift
        for i, piece in enumerate(self.pieces):
            theta = piece.vector(piece.params)
            self.means.append(theta.clone() if store_mean or _is_half(piece) else None)
            shift(i, theta, 1.0)
            piece.write(theta, piece.params)

    def perturb_at_once(self, shift: Shift, at_once: AtOnce, *, store_mean: bool = True) -> None:
        """As ``perturb``; ``at_once(means, receipt)`` moves all pieces, writes their means, and then a 1 on the receipt: whoever is
        interrupted on the way there or back finds out from it whether there is something to restore."""
        self._shift = shift
        self._moved = ctypes.c_int64()
        self.means = [
            torch.empty(piece.size, dtype=piece.dtype, device=piece.params[0].device)
            if store_mean or _is_half(piece)
            else None
            for piece in self.pieces
        ]
        at_once(self.means, self._moved)

    def means_for_update(self, pieces: list[Piece]) -> tuple[list[Tensor], ctypes.c_int64] | None:
        """The stored means, if these are the pieces that hold the sample, for an update that writes the new means over it."""
        means = [mean for mean in self.means if mean is not None]
        if not means or len(means) < len(pieces) or pieces != self.pieces:
            return None
        self._updated = ctypes.c_int64()
        return means, self._updated

    @torch.no_grad()
    def restore(self) -> None:
        """θ = μ: bit for bit where the mean was stored, and then, interrupted, it can be called again."""
        if (self._moved is not None and not self._moved.value) or (self._updated is not None and self._updated.value):
            self.means = []
        while self.means:
            i = len(self.means) - 1
            piece, mean = self.pieces[i], self.means[i]
            if mean is None:
                mean = piece.vector(piece.params)
                self._deviate(i, mean, -1.0)
            piece.write(mean, piece.params)
            self.means.pop()
        self._shift = None  # it knows this sample: who holds itself is freed late

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
        self._deviate(i, theta, -1.0)
        return theta

    def _deviate(self, i: int, theta: Tensor, sign: float) -> None:
        assert self._shift is not None
        self._shift(i, theta, sign)

    def has_new_gradient(self) -> bool:
        return self._before.any_is_new()
