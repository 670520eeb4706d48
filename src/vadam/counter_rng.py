"""Counter-based random numbers: a pure function of a key and a position.

There is no generator state. Given the key, any number can be drawn again, in any order, on any number of threads and
on any device. The function is plain arithmetic, so it fuses with the code that uses the numbers.

    x ← position (k₂ | 1) + k₁,  a ← mix(x, k₂),  b ← mix(a, k₁)      k₁, k₂ 32 bits each
    u, v ← a/2³², b/2³²
    ε ← √(−2 log u) (cos 2πv, sin 2πv)                        Box–Muller: two Gaussians from two hashes
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ / golden ratio: multiplying by it decorrelates neighbouring numbers


def keys(seeds: Sequence[int], streams: Sequence[int]) -> Tensor:
    """Return the key (k₁, k₂) of every stream of every seed, int32 [len(streams), len(seeds), 2]."""
    seed = np.array([s % 2**64 for s in seeds], dtype=np.uint64)[None, :]
    stream = np.asarray(streams, dtype=np.uint64)[:, None]
    with np.errstate(over="ignore"):
        key = _splitmix(_splitmix(seed) ^ (stream * np.uint64(GOLDEN)))
    return torch.from_numpy(key.view(np.int32).reshape(*key.shape, 2))


def bits(key: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Return two 32-bit hashes for each position (int32), with the multipliers of lowbias32 and murmur3."""
    k1, k2 = key[..., :1], key[..., 1:]
    x = position * (k2 | 1) + k1  # each stream has its own step width, so that no two overlap
    x = (x ^ _shifted(x, 16)) * 0x7FEB352D
    x = ((x ^ _shifted(x, 15)) + k2) * _signed(0x846CA68B)
    a = x ^ _shifted(x, 16)
    y = a * _signed(0x9E3779B9) + k1
    y = (y ^ _shifted(y, 15)) * _signed(0xC2B2AE35)
    return a, y ^ _shifted(y, 16)


def unit(a: Tensor, dtype: torch.dtype) -> Tensor:
    """Map the upper 24 bits to the middle of one of 2²⁴ equal parts of (0, 1)."""
    return _shifted(a, 8).to(dtype) * 2.0**-24 + 2.0**-25


def gaussian_pair(key: Tensor, position: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return two independent N(0, 1) numbers for each position."""
    a, b = bits(key, position)
    radius = torch.sqrt(-2 * torch.log(unit(a, dtype)))
    angle = b.to(dtype) * (math.pi * 2.0**-31)
    return radius * torch.cos(angle), radius * torch.sin(angle)


def _shifted(x: Tensor, k: int) -> Tensor:
    """Return x >> k with zeros shifted in; torch shifts in the sign."""
    return (x >> k) & ((1 << (32 - k)) - 1)


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


def _splitmix(z: np.ndarray) -> np.ndarray:
    """Apply the output function of splitmix64 (Steele et al. 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
