"""``vadam.counter`` in single precision as one loop of multiplications and additions, for numba.

The bits are the same; logarithm, sine and cosine are polynomials, good to about the last bit of a float32, so that the loop has no
calls and every processor can run it eight or sixteen numbers at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from vadam.counter import GOLDEN


def _polynomial(f: Callable[[Any], Any], low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Coefficients of the interpolation at Chebyshev's nodes, which is all but the best uniform approximation."""
    fit = np.polynomial.Chebyshev.interpolate(f, degree, domain=[low, high])
    return tuple(np.float32(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef)


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
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import float32, int32, types, uint32
    from numba.extending import intrinsic

    @intrinsic
    def bits_of(context: Any, x: Any) -> Any:
        return types.uint32(types.float32), lambda c, b, s, args: b.bitcast(args[0], ir.IntType(32))

    @intrinsic
    def float_of(context: Any, x: Any) -> Any:
        return types.float32(types.uint32), lambda c, b, s, args: b.bitcast(args[0], ir.FloatType())

    root = math.sqrt(0.5)
    log = _polynomial(lambda f: np.log1p(f) / f, root - 1, 2 * root - 1, 9)  # log(1 + f)/f
    sine = _polynomial(lambda q: np.sin(2 * np.pi * np.sqrt(q)) / np.sqrt(q), 0, 1 / 64, 4)  # sin(2πv)/v in v²
    cosine = _polynomial(lambda q: np.cos(2 * np.pi * np.sqrt(q)), 0, 1 / 64, 4)  # cos(2πv) in v²
    log2 = np.float32(math.log(2))
    bits_of_root = np.float32(root).view(np.uint32)

    @numba.njit(inline="always")
    def horner(c: Any, x: Any) -> Any:
        y = c[len(c) - 1]
        for i in range(len(c) - 2, -1, -1):
            y = y * x + c[i]
        return y

    @numba.njit(fastmath=True, **options)
    def pairs(first: Any, second: Any, n: Any, k1: Any, k2: Any, start: Any) -> None:
        for i in range(n):
            x = uint32(uint32(i) + start + k1)
            x = uint32((x ^ (x >> uint32(16))) * uint32(0x7FEB352D))
            x = uint32(uint32((x ^ (x >> uint32(15))) + k2) * uint32(0x846CA68B))
            a = x ^ (x >> uint32(16))
            y = uint32(uint32(a * uint32(0x9E3779B9)) + k1)
            y = uint32((y ^ (y >> uint32(15))) * uint32(0xC2B2AE35))
            b = y ^ (y >> uint32(16))

            u = float32(int32(a >> uint32(8))) * float32(2.0**-24) + float32(2.0**-25)
            word: Any = bits_of(u)  # type: ignore[call-arg]  # u = (1 + f) 2^e with 1 + f from √½ to √2
            e = int32(uint32(word - bits_of_root)) >> int32(23)
            f = float_of(uint32(word - (uint32(e) << uint32(23)))) - float32(1)
            radius = math.sqrt(float32(-2) * (float32(e) * log2 + f * horner(log, f)))

            # The angle is b/2³² turns: the nearest quarter and the rest.
            quarter = int32(uint32(b + uint32(1 << 29))) >> int32(30)
            v = float32(int32(uint32(b - (uint32(quarter) << uint32(30))))) * float32(2.0**-32)
            s, c = v * horner(sine, v * v), horner(cosine, v * v)
            odd = (quarter & int32(1)) != int32(0)
            cos, sin = (s, c) if odd else (c, s)
            first[i] = radius * (-cos if ((quarter + int32(1)) & int32(2)) != int32(0) else cos)
            second[i] = radius * (-sin if (quarter & int32(2)) != int32(0) else sin)

    return pairs
