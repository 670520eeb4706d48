"""Functions that torch does not have: the regularised incomplete beta function, Student's t, and roots of many functions at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

MAX_TERMS = 300
MOST_ARGUMENT = 1e10
"""Largest argument for which the continued fraction gets the terms that it needs, about the root of the argument."""
MOST_TERMS = 30
MAX_STEPS = 100
MOST = 1e150
"""Bound of |t|, whose square is finite."""


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the regularised incomplete beta function I_x(a, b), for a, b > 0 and x from 0 to 1.

    The continued fraction DLMF 8.17.22, by Lentz' method; it converges for x < (a + 1)/(a + b + 2), and
    I_x(a, b) = 1 − I_{1−x}(b, a) serves the rest. The work is in float64.
    """
    dtype = torch.result_type(a, x)
    a, b, x = torch.broadcast_tensors(a.double(), b.double(), x.double())
    swap = x > (a + 1) / (a + b + 2)
    a, b, x = torch.where(swap, b, a), torch.where(swap, a, b), torch.where(swap, 1 - x, x)
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    front = torch.exp(torch.xlogy(a, x) + torch.special.xlog1py(b, -x) - log_beta) / a
    value = front * _continued_fraction(a, b, x)
    return torch.where(swap, 1 - value, value).to(dtype)


def student_t_cdf(t: Tensor, dof: float) -> Tensor:
    """Return P(T ≤ t) for Student's t with ``dof`` degrees of freedom: ½ I_{ν/(ν + t²)}(ν/2, ½) in the lower tail.

    Near 0 it is ½ − ½ I_{t²/(ν + t²)}(½, ν/2). For a few whole degrees of freedom it is a finite sum (Abramowitz and Stegun
    26.7.3 and 26.7.4), many times faster and exact to 1e-15 absolute instead of relative.
    """
    wide = t.double().clamp(-MOST, MOST)
    if float(dof).is_integer() and dof <= MOST_TERMS:
        return _finite_sum(wide, int(dof)).to(t.dtype)
    square = wide**2
    near = square < dof  # ν/(ν + t²) rounds to 1 there
    half, other = torch.full_like(wide, dof / 2), torch.full_like(wide, 0.5)
    a, b = torch.where(near, other, half), torch.where(near, half, other)
    found = betainc(a, b, torch.where(near, square, dof) / (dof + square))
    tail = 0.5 * torch.where(near, 1 - found, found)
    return torch.where(wide < 0, tail, 1 - tail).to(t.dtype)


def find_root(function: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, tolerance: Tensor) -> Tensor:
    """Return where an increasing function is 0 between ``low`` and ``high``, elementwise, by Chandrupatla's method (1997).

    It bisects or interpolates inversely by a parabola through the last three points, whichever is safe. Where the function is
    negative at ``high`` or positive at ``low``, that end is returned.
    """
    a, b = high, low
    fa, fb = function(a), function(b)
    below, above = fa < 0, fb > 0
    c, fc = a, fa
    t: Tensor = torch.full_like(a, 0.5)
    for _ in range(MAX_STEPS):
        x = a + t * (b - a)
        fx = function(x)
        same = torch.sign(fx) == torch.sign(fa)
        c, fc = torch.where(same, a, b), torch.where(same, fa, fb)
        b, fb = torch.where(same, b, a), torch.where(same, fb, fa)
        a, fa = x, fx
        nearest = torch.where(fa.abs() < fb.abs(), a, b)
        width = 2 * tolerance + 4 * torch.finfo(a.dtype).eps * a.abs()
        done = ((b - a).abs() <= width) | (fa == 0) | below | above
        if bool(done.all()):
            break
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        parabola = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        least = (tolerance / (b - a).abs().clamp_min(torch.finfo(a.dtype).tiny)).clamp(max=0.5)
        t = torch.where(safe & parabola.isfinite(), parabola, 0.5)
        t = torch.minimum(torch.maximum(t, least), 1 - least)
        t = torch.where(done, torch.zeros_like(t), t)
    return torch.where(below, high, torch.where(above, low, nearest))


def _finite_sum(t: Tensor, dof: int) -> Tensor:
    """Return the distribution function of Student's t for whole degrees of freedom."""
    cosine_squared = dof / (dof + t**2)
    sine, cosine = t / (dof + t**2).sqrt(), cosine_squared.sqrt()
    odd = dof % 2
    term = cosine if odd else torch.ones_like(t)
    total = term.clone() if dof > 1 else torch.zeros_like(t)
    for k in range(2 + odd, dof - 1, 2):
        term = term * cosine_squared * (k - 1) / k
        total = total + term
    if odd:
        inner = torch.atan(t / math.sqrt(dof)) + (sine * total if dof > 1 else 0.0)
        return 0.5 + inner / math.pi
    return 0.5 + 0.5 * sine * total


def _continued_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    tiny = torch.full_like(x, 1e-300)
    terms = MAX_TERMS + 4 * math.isqrt(int(torch.maximum(a, b).clamp(max=MOST_ARGUMENT).amax())) if a.numel() else 0
    c = torch.ones_like(x)
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, terms):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        previous = value
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d, tiny)
            c = _not_zero(1 + term / c, tiny)
            value = value * c * d
        if bool(((value - previous).abs() <= 1e-15 * value.abs()).all()):
            break
    return value


def _not_zero(value: Tensor, tiny: Tensor) -> Tensor:
    return torch.where(value.abs() < tiny, tiny, value)
