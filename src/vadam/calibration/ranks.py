"""Order statistics of conformal prediction: which of n sorted scores bounds a new one with a given probability."""

from __future__ import annotations

import math

from torch import Tensor

ROUNDING = 1e-9
"""Largest distance from a whole number at which (n + 1) level still counts as one."""


def upper_rank(n: int, level: float) -> int:
    """Return k = ⌈(n + 1) level⌉: a new score is at most the k-th smallest of n with probability at least ``level``."""
    return math.ceil((n + 1) * level - ROUNDING)


def kth_smallest(values: Tensor, k: int) -> Tensor:
    """Return the k-th smallest along the first axis; −∞ for k = 0, +∞ for k above their number."""
    if k < 1 or k > len(values):
        return values.new_full(values.shape[1:], -math.inf if k < 1 else math.inf)
    return values.kthvalue(k, dim=0).values


def check_level(level: float) -> None:
    """Raise ValueError unless the level is between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, e.g. 0.9, got {level!r}")
