"""Logarithm, exponential and what is made of them in single precision, as multiplications and additions, for numba.

A call of the mathematical library takes one number at a time. These have no calls, so every processor can run a loop of them eight or
sixteen numbers at a time. They are good to about the last bit of a float32; NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

LARGEST, SMALLEST = np.float32(88.0), np.float32(-87.0)  # of the arguments of exp whose values are ordinary float32
TO_NEAREST = np.float32(1.5 * 2**23)  # added to a float32, it leaves no room for a fraction


def polynomial(f: Callable[[Any], Any], low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Coefficients of the interpolation at Chebyshev's nodes, which is all but the best uniform approximation."""
    fit = np.polynomial.Chebyshev.interpolate(f, degree, domain=[low, high])
    return tuple(np.float32(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef)


@cache
def inlined(function: Callable[..., Any]) -> Any:
    import numba

    return numba.njit(inline="always", error_model="numpy")(function)


@cache
def horner() -> Any:
    def horner(c: Any, x: Any) -> Any:
        y = c[len(c) - 1]
        for i in range(len(c) - 2, -1, -1):
            y = y * x + c[i]
        return y

    return inlined(horner)


@cache
def bits() -> tuple[Any, Any]:
    """The bits of a float32 as an integer, and back."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def bits_of(context: Any, x: Any) -> Any:
        return types.uint32(types.float32), lambda c, b, s, args: b.bitcast(args[0], ir.IntType(32))

    @intrinsic
    def float_of(context: Any, x: Any) -> Any:
        return types.float32(types.uint32), lambda c, b, s, args: b.bitcast(args[0], ir.FloatType())

    return bits_of, float_of


@cache
def log() -> Any:
    """u = (1 + f) 2^e with 1 + f from √½ to √2: log u = e log 2 + log(1 + f), for ordinary u > 0."""
    from numba import float32, int32, uint32

    root = math.sqrt(0.5)
    of_1_plus = polynomial(lambda f: np.log1p(f) / f, root - 1, 2 * root - 1, 9)  # log(1 + f)/f
    log2, bits_of_root = np.float32(math.log(2)), np.float32(root).view(np.uint32)
    sum_of, (bits_of, float_of) = horner(), bits()

    def log(u: Any) -> Any:
        word = bits_of(u)
        e = int32(uint32(word - bits_of_root)) >> int32(23)
        f = float_of(uint32(word - (uint32(e) << uint32(23)))) - float32(1)
        return float32(e) * log2 + f * sum_of(of_1_plus, f)

    return inlined(log)


@cache
def exp() -> Any:
    """x = k log 2 + r with |r| ≤ ½ log 2: e^x = 2^k e^r."""
    from numba import float32, uint32

    half = math.log(2) / 2
    of_rest = polynomial(np.exp, -half, half, 6)
    per_log2 = np.float32(1 / math.log(2))
    high = np.float32(0.693359375)  # log 2 in two parts, of which the first times k is exact
    low = np.float32(math.log(2) - 0.693359375)
    sum_of, (bits_of, float_of) = horner(), bits()
    bits_of_zero = TO_NEAREST.view(np.uint32)

    def exp(x: Any) -> Any:
        x = LARGEST if x > LARGEST else (SMALLEST if x < SMALLEST else x)
        shifted = float32(x * per_log2 + TO_NEAREST)
        k = float32(shifted - TO_NEAREST)
        r = (x - k * high) - k * low
        two_to_k = float_of(uint32(uint32(bits_of(shifted) - bits_of_zero) + uint32(127)) << uint32(23))
        return sum_of(of_rest, r) * two_to_k

    return inlined(exp)


@cache
def functions() -> dict[str, Any]:
    """What a rule may use besides arithmetic, by the names of ``tracing``."""
    from numba import float32

    exp_of, log_of = exp(), log()

    def softplus(x: Any) -> Any:
        """log(1 + e^x); the quotient makes up for what 1 + e^x has lost of e^x."""
        u = exp_of(x)
        w = float32(float32(1) + u)
        lost = float32(w - float32(1))
        y = u if lost == float32(0) else log_of(w) * (u / lost)
        return x if x > float32(20) else y

    def sigmoid(x: Any) -> Any:
        return float32(1) / (float32(1) + exp_of(-x))

    return {"softplus": inlined(softplus), "sigmoid": inlined(sigmoid)}
