"""Tell whether gradients were taken since a moment."""

from __future__ import annotations

from torch import Tensor
from torch.utils.weak import TensorWeakRef


class GradientMarks:
    """Remembers parameters' gradients, weakly: gradients that are cleared are freed before new ones are taken."""

    def __init__(self, params: list[Tensor]) -> None:
        grads = [(p, p.grad) for p in params]
        self._without = [p for p, g in grads if g is None]
        self._with = [(p, TensorWeakRef(g), g._version) for p, g in grads if g is not None]

    def any_is_new(self) -> bool:
        """Return True if a gradient is not the one that was remembered, or was written to since."""
        return any(p.grad is not None for p in self._without) or any(map(_is_new, self._with))

    def all_are_cleared(self) -> bool:
        """Return True if all gradients are gone, or new and zero; zeros are looked for on the CPU only."""
        with_gradient = [p for p in self._without if p.grad is not None]
        with_gradient += [mark[0] for mark in self._with if mark[0].grad is not None]
        new = {*self._without, *(mark[0] for mark in self._with if _is_new(mark))}
        return all(p in new and p.grad.is_cpu and not p.grad.any() for p in with_gradient)  # type: ignore[union-attr]


def _is_new(mark: tuple[Tensor, TensorWeakRef, int]) -> bool:
    p, before, version = mark
    return p.grad is not None and (before() is not p.grad or p.grad._version != version)
