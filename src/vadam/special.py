"""Special functions that torch does not have: the regularised incomplete beta function, and Student's t through it."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_TERMS = 300


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
    """Return P(T ≤ t) for Student's t with ``dof`` degrees of freedom: ½ I_{ν/(ν + t²)}(ν/2, ½) in the lower tail."""
    wide = t.double()
    tail = 0.5 * betainc(torch.full_like(wide, dof / 2), torch.full_like(wide, 0.5), dof / (dof + wide**2))
    return torch.where(wide < 0, tail, 1 - tail).to(t.dtype)


def _continued_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    tiny = torch.full_like(x, 1e-300)
    c = torch.ones_like(x)
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, MAX_TERMS):
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
