"""Standard normal numbers as a function of a seed, a stream and a position, in float32, for native loops.

    key ← splitmix(splitmix(seed) ⊕ stream·golden)          k₁, k₂ its two halves
    x ← position (k₂ | 1) + k₁,  a ← mix(x, k₂),  b ← mix(a, k₁)
    ε ← √(−2 log u) (cos 2πv, sin 2πv),  u = a/2³², v = b/2³²     Box–Muller: two numbers from two hashes

The numbers do not depend on the number of threads, and whoever knows the seed can draw them again.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir

from vadam.backends.llvm import LONG, POINTER, REAL, WORD, Function, Value
from vadam.backends.native_math import horner, log, polynomial

GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ / golden ratio: neighbouring numbers, multiplied by it, become unrelated


def splitmix(z: Value) -> Value:
    """Return the output function of splitmix64 (Steele et al. 2014)."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@cache
def _sine_cosine() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of sin(2πv)/v and cos(2πv) in v², for |v| ≤ 1/8."""
    sine = polynomial(lambda q: np.sin(2 * np.pi * np.sqrt(q)) / np.sqrt(q), 0, 1 / 64, 4)
    return sine, polynomial(lambda q: np.cos(2 * np.pi * np.sqrt(q)), 0, 1 / 64, 4)


def gaussian_pair(position: Value, k1: Value, k2: Value) -> tuple[Value, Value]:
    """Return two independent N(0, 1) numbers for a position."""
    x = position * (k2 | 1) + k1
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = ((x ^ (x >> 15)) + k2) * 0x846CA68B
    a = x ^ (x >> 16)
    y = a * 0x9E3779B9 + k1
    y = (y ^ (y >> 15)) * 0xC2B2AE35
    b = y ^ (y >> 16)

    u = (a >> 8).to(REAL, "sitofp") * 2.0**-24 + 2.0**-25
    radius = (log(u) * -2).sqrt()

    # The angle is b/2³² turns: the nearest quarter and the rest.
    builder = b.builder
    quarter = (b + (1 << 29)) >> 30
    v = (b - (quarter << 30)).to(REAL, "sitofp") * 2.0**-32
    sine, cosine = (horner(c, v * v) for c in _sine_cosine())
    sine = v * sine

    def chosen(condition: Value, yes: Value, no: Value) -> Value:
        is_set = builder.icmp_signed("!=", condition.ir, condition.constant(0).ir)
        return yes.new(builder.select(is_set, yes.ir, no.ir))

    odd = quarter & 1
    cos, sin = chosen(odd, sine, cosine), chosen(odd, cosine, sine)
    cos = chosen((quarter + 1) & 2, -cos, cos)
    sin = chosen(quarter & 2, -sin, sin)
    return radius * cos, radius * sin


def emit_noise(module: ir.Module) -> ir.Function:
    """Add ``noise(first, second, n, seed, stream, start)`` to a module: n pairs, from position ``start`` of a stream."""
    function = Function(module, "noise", [POINTER, POINTER, LONG, LONG, LONG, LONG])
    first, second = function.ir.args[:2]
    n, seed, stream, start = (function.argument(i) for i in range(2, 6))
    key = splitmix(splitmix(seed) ^ (stream * GOLDEN))
    k1, k2 = key.to(WORD, "trunc"), (key >> 32).to(WORD, "trunc")
    position = start.to(WORD, "trunc")
    with function.loop(n.constant(0), n) as i:
        pair = gaussian_pair(i.to(WORD, "trunc") + position, k1, k2)
        function.store(pair[0], first, i)
        function.store(pair[1], second, i)
    function.end()
    return function.ir
