"""Random numbers that are a function of (seed, step, position) and of nothing else.

A position is hashed together with a key made of the member's seed and the step; Box–Muller turns two hashes into two
Gaussians. There is no generator to carry along, so a member draws the same noise alone and in any stack; and because the
function is plain arithmetic it fuses with whatever uses the noise, which makes it cheaper than torch's own generator.

    x ← position + k₁,  a ← mix(x, k₂),  b ← mix(a, k₁)      k₁, k₂ 32 bits each
    u, v ← a/2³², b/2³²
    ε ← √(−2 log u) (cos 2πv, sin 2πv)
"""

import math
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor


class Stream(IntEnum):
    """What the numbers are for; streams with different names never share numbers."""

    WEIGHTS = 1
    DROPOUT = 2
    EVALUATION = 3
    PREDICTION = 4


def keys(seeds: Sequence[int], steps: Sequence[int], stream: Stream) -> Tensor:
    """The keys (k₁, k₂) of every step and every seed, int32 [len(steps), len(seeds), 2]."""
    seed = np.array([s % 2**64 for s in seeds], dtype=np.uint64)[None, :]
    step = np.asarray(steps, dtype=np.uint64)[:, None]
    with np.errstate(over="ignore"):
        key = _splitmix(_splitmix(seed + np.uint64(stream) * _GOLDEN) ^ (step * _GOLDEN))
    return torch.from_numpy(key.view(np.int32).reshape(*key.shape, 2))


def normals(key: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    """n independent N(0, 1) numbers for each key, [E, n]."""
    a, b = _bits(key, (n + 1) // 2)
    radius = torch.sqrt(-2 * torch.log(_unit(a, dtype)))
    angle = b.to(dtype) * (math.pi * 2.0**-31)
    return torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)), -1)[:, :n]


def uniforms(key: Tensor, n: int, dtype: torch.dtype, *, start: int = 0) -> Tensor:
    """n independent numbers for each key, uniform in (0, 1), [E, n]: those from ``start`` on of an endless row."""
    return _unit(_bits(key, n, start)[0], dtype)


def _bits(key: Tensor, n: int, start: int = 0) -> tuple[Tensor, Tensor]:
    """Two hashes of 32 bits for each position; the multipliers are those of lowbias32 and murmur3."""
    k1, k2 = key[:, :1], key[:, 1:]
    x = torch.arange(start, start + n, dtype=torch.int32, device=key.device) + k1
    x = (x ^ _shifted(x, 16)) * 0x7FEB352D
    x = ((x ^ _shifted(x, 15)) + k2) * _signed(0x846CA68B)
    a = x ^ _shifted(x, 16)
    y = a * _signed(0x9E3779B9) + k1
    y = (y ^ _shifted(y, 15)) * _signed(0xC2B2AE35)
    return a, y ^ _shifted(y, 16)


def _unit(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """The upper 24 bits as the middle of one of 2²⁴ equal parts of (0, 1)."""
    return _shifted(bits, 8).to(dtype) * 2.0**-24 + 2.0**-25


def _shifted(x: Tensor, k: int) -> Tensor:
    """x >> k with zeros shifted in; torch shifts in the sign."""
    return (x >> k) & ((1 << (32 - k)) - 1)


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _splitmix(z: np.ndarray) -> np.ndarray:
    """The output function of splitmix64 (Steele et al. 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
