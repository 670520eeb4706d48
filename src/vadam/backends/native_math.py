"""Logarithm, exponential and what follows from them in float32, as multiplications and additions.

A call of the mathematical library takes one number at a time. These have no calls, so a processor runs a loop of them eight or
sixteen numbers at a time. They are good to about the last bit of a float32; NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from vadam.backends.llvm import REAL, WORD, Value

LARGEST, SMALLEST = 88.0, -87.0  # arguments of exp whose values are normal float32 numbers
TO_NEAREST = 1.5 * 2**23  # added to a float32, it leaves no room for a fraction


def polynomial(f: Callable[[Any], Any], low: float, high: float, degree: int) -> tuple[float, ...]:
    """Return the coefficients of the interpolation at Chebyshev's nodes, nearly the best uniform approximation."""
    fit = np.polynomial.Chebyshev.interpolate(f, degree, domain=[low, high])
    return tuple(float(np.float32(c)) for c in fit.convert(kind=np.polynomial.Polynomial).coef)


def horner(coefficients: Sequence[float], x: Value) -> Value:
    """Evaluate the polynomial c₀ + c₁ x + c₂ x² + … by Horner's scheme."""
    y = x.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        y = y * x + c
    return y


@cache
def _log1p_over_x() -> tuple[float, ...]:
    root = math.sqrt(0.5)
    return polynomial(lambda f: np.log1p(f) / f, root - 1, 2 * root - 1, 9)


def log(u: Value) -> Value:
    """Return the logarithm of a normal float32 u > 0.

    u = (1 + f) 2^e with 1 + f from √½ to √2, so that log u = e log 2 + log(1 + f).
    """
    bits_of_root = int(np.float32(math.sqrt(0.5)).view(np.uint32))
    word = u.to(WORD, "bitcast")
    exponent = (word - bits_of_root).new(u.builder.ashr((word - bits_of_root).ir, word.constant(23).ir))
    f = (word - (exponent << 23)).to(REAL, "bitcast") - 1
    return exponent.to(REAL, "sitofp") * float(np.float32(math.log(2))) + f * horner(_log1p_over_x(), f)


@cache
def _exp_near_0() -> tuple[float, ...]:
    half = math.log(2) / 2
    return polynomial(np.exp, -half, half, 6)


def exp(x: Value) -> Value:
    """Return e^x = 2^k e^r, where x = k log 2 + r and |r| ≤ ½ log 2."""
    high = 0.693359375  # log 2 to so few bits that k times it is exact
    low = math.log(2) - high
    x = x.clamp(SMALLEST, LARGEST)
    shifted = x * float(np.float32(1 / math.log(2))) + TO_NEAREST
    k = shifted - TO_NEAREST
    r = (x - k * high) - k * low
    bits_of_zero = int(np.float32(TO_NEAREST).view(np.uint32))
    two_to_k = ((shifted.to(WORD, "bitcast") - bits_of_zero + 127) << 23).to(REAL, "bitcast")
    return horner(_exp_near_0(), r) * two_to_k


def softplus(x: Value) -> Value:
    """Return log(1 + e^x); the quotient makes up for what 1 + e^x has lost of e^x."""
    u = exp(x)
    w = u + 1
    lost = w - 1
    y = log(w) * (u / lost)
    y = y.new(y.builder.select(y.builder.fcmp_ordered("==", lost.ir, lost.constant(0).ir), u.ir, y.ir))
    return y.new(y.builder.select(y.builder.fcmp_ordered(">", x.ir, x.constant(20).ir), x.ir, y.ir))


def sigmoid(x: Value) -> Value:
    """Return 1/(1 + e^−x)."""
    return 1 / (exp(-x) + 1)
