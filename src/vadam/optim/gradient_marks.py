"""Tell whether gradients were taken since a moment."""

from __future__ import annotations

from torch import Tensor
from torch.utils.weak import TensorWeakRef

Mark = tuple[TensorWeakRef, int] | None
"""A gradient and its version, None if there was none."""


class GradientMarks:
    """Remembers parameters' gradients, weakly: gradients that are cleared are freed before new ones are taken."""

    def __init__(self, params: list[Tensor]) -> None:
        self._params = params
        self._marks = [None if (g := p.grad) is None else (TensorWeakRef(g), g._version) for p in params]

    def any_is_new(self) -> bool:
        """Return True if a gradient is not the one that was remembered, or was written to since."""
        return True in map(_is_new, self._params, self._marks)

    def all_are_cleared(self) -> bool:
        """Return True if all gradients are gone, or new and zero; zeros are looked for on the CPU only."""
        pairs = [(p, mark) for p, mark in zip(self._params, self._marks, strict=True) if p.grad is not None]
        return all(_is_new(p, mark) and p.grad.is_cpu and not p.grad.any() for p, mark in pairs)  # type: ignore[union-attr]


def _is_new(p: Tensor, mark: Mark) -> bool:
    g = p.grad
    return g is not None and (mark is None or mark[0]() is not g or g._version != mark[1])
