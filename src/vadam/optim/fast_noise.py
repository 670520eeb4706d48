"""``vadam.counter.gaussian_pair`` in single precision as one loop of multiplications and additions, for numba.

The bits are the same; logarithm, sine and cosine are polynomials, good to about the last bit of a float32, so that the loop has no
calls and every processor can run it eight or sixteen numbers at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

ENOUGH_FOR_A_THREAD = 1 << 19  # fewer, and waking a thread takes longer than it saves


@cache
def available() -> bool:
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def fill(first: Tensor, second: Tensor, key: Tensor) -> None:
    """Two independent N(0, 1) numbers for each position, on all of torch's threads."""
    pairs = _pairs()
    k1, k2 = key.numpy().view(np.uint32)
    a, b = first.numpy(), second.numpy()
    threads = max(1, min(torch.get_num_threads(), len(a) // ENOUGH_FOR_A_THREAD))
    cuts = [len(a) * i // threads for i in range(threads + 1)]

    def part(i: int) -> None:
        begin, end = cuts[i], cuts[i + 1]
        pairs(a[begin:end], b[begin:end], k1, k2, np.uint32(begin))

    if threads == 1:
        part(0)
    else:
        list(_pool(threads).map(part, range(threads)))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="vadam-noise")


def _polynomial(f: Callable[[Any], Any], low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Coefficients of the interpolation at Chebyshev's nodes, which is all but the best uniform approximation."""
    fit = np.polynomial.Chebyshev.interpolate(f, degree, domain=[low, high])
    return tuple(np.float32(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef)


@cache
def _pairs() -> Callable[..., None]:
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

    @numba.njit(nogil=True, fastmath=True, error_model="numpy")
    def pairs(first: Any, second: Any, k1: Any, k2: Any, start: Any) -> None:
        for i in range(first.shape[0]):
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

            quarter = int32(uint32(b + uint32(1 << 29))) >> int32(
                30
            )  # the angle is b/2³² turns: the nearest quarter and the rest
            v = float32(int32(uint32(b - (uint32(quarter) << uint32(30))))) * float32(2.0**-32)
            s, c = v * horner(sine, v * v), horner(cosine, v * v)
            odd = (quarter & int32(1)) != int32(0)
            cos, sin = (s, c) if odd else (c, s)
            first[i] = radius * (-cos if ((quarter + int32(1)) & int32(2)) != int32(0) else cos)
            second[i] = radius * (-sin if (quarter & int32(2)) != int32(0) else sin)

    return pairs
