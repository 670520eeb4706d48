"""The random numbers of a stack: a function of (seed, step, position).

A member therefore draws the same numbers alone and in any stack.
"""

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

from vadam import counter_rng


class Stream(IntEnum):
    """The purpose of random numbers; different streams never share numbers."""

    WEIGHTS = 1
    DROPOUT = 2
    EVALUATION = 3
    PREDICTION = 4


def keys(seeds: Sequence[int], steps: Sequence[int], stream: Stream) -> Tensor:
    """Return the keys (k₁, k₂) of every step and every seed, int32 [len(steps), len(seeds), 2]."""
    return counter_rng.keys([seed + stream * counter_rng.GOLDEN for seed in seeds], steps)


def normals(key: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    """Return n independent N(0, 1) numbers for each key, [E, n]."""
    return torch.cat(counter_rng.gaussian_pair(key, _positions(key, (n + 1) // 2), dtype), -1)[:, :n]


def uniforms(key: Tensor, n: int, dtype: torch.dtype, *, start: int = 0) -> Tensor:
    """Return n independent numbers for each key, uniform in (0, 1), [E, n], from position ``start`` on."""
    return counter_rng.unit(counter_rng.bits(key, _positions(key, n, start))[0], dtype)


def _positions(key: Tensor, n: int, start: int = 0) -> Tensor:
    return torch.arange(start, start + n, dtype=torch.int32, device=key.device)
