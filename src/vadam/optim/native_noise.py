"""``vadam.counter`` in single precision as one loop of multiplications and additions, for numba.

The bits are the same; logarithm, sine and cosine are polynomials (``native_math``), good to about the last bit of a float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from vadam.counter import GOLDEN
from vadam.optim import native_math
from vadam.optim.native_math import polynomial


@cache
def noise(reals: Any, **options: Any) -> Callable[..., None]:
    """``noise(first, second, n, seed, stream, start)``: of a stream of a seed, to two addresses."""
    import numba
    from numba import uint32, uint64

    of_pairs = pairs(**options)

    @numba.njit(inline="always")
    def splitmix(z: Any) -> Any:
        z = uint64((z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9))
        z = uint64((z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB))
        return uint64(z ^ (z >> uint64(31)))

    @numba.njit(error_model="numpy")
    def noise(first: Any, second: Any, n: Any, seed: Any, stream: Any, start: Any) -> None:
        key = splitmix(splitmix(uint64(seed)) ^ uint64(uint64(stream) * uint64(GOLDEN)))
        of_pairs(reals(first), reals(second), n, uint32(key), uint32(key >> uint64(32)), uint32(start))

    return noise


@cache
def pairs(**options: Any) -> Callable[..., None]:
    """The loop ``pairs(first, second, n, k1, k2, start)``: two independent N(0, 1) numbers for each of n positions from ``start``."""
    import numba
    from numba import float32, int32, uint32

    sine = polynomial(lambda q: np.sin(2 * np.pi * np.sqrt(q)) / np.sqrt(q), 0, 1 / 64, 4)  # sin(2πv)/v in v²
    cosine = polynomial(lambda q: np.cos(2 * np.pi * np.sqrt(q)), 0, 1 / 64, 4)  # cos(2πv) in v²
    sum_of, log = native_math.horner(), native_math.log()

    @numba.njit(fastmath=True, **options)
    def pairs(first: Any, second: Any, n: Any, k1: Any, k2: Any, start: Any) -> None:
        for i in range(n):
            x = uint32(uint32(uint32(i) + start) * uint32(k2 | uint32(1)) + k1)
            x = uint32((x ^ (x >> uint32(16))) * uint32(0x7FEB352D))
            x = uint32(uint32((x ^ (x >> uint32(15))) + k2) * uint32(0x846CA68B))
            a = x ^ (x >> uint32(16))
            y = uint32(uint32(a * uint32(0x9E3779B9)) + k1)
            y = uint32((y ^ (y >> uint32(15))) * uint32(0xC2B2AE35))
            b = y ^ (y >> uint32(16))

            u = float32(int32(a >> uint32(8))) * float32(2.0**-24) + float32(2.0**-25)
            radius = math.sqrt(float32(-2) * log(u))

            # The angle is b/2³² turns: the nearest quarter and the rest.
            quarter = int32(uint32(b + uint32(1 << 29))) >> int32(30)
            v = float32(int32(uint32(b - (uint32(quarter) << uint32(30))))) * float32(2.0**-32)
            s, c = v * sum_of(sine, v * v), sum_of(cosine, v * v)
            odd = (quarter & int32(1)) != int32(0)
            cos, sin = (s, c) if odd else (c, s)
            first[i] = radius * (-cos if ((quarter + int32(1)) & int32(2)) != int32(0) else cos)
            second[i] = radius * (-sin if (quarter & int32(2)) != int32(0) else sin)

    return pairs
