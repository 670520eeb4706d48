"""Gaussian expectations of the softplus and its derivatives, in closed form to double precision.

For z ~ N(m, v), with ζ(z) = log(1 + eᶻ) and its derivatives σ, σ', σ'', σ''':

    ζ(z) = max(z, 0) + x g₀(x),   σ(z) = 1[z > 0] ∓ x g₁(x),   σ'(z) = x g₂(x), ...        x = e^−|z| ∈ (0, 1]

Each g is analytic but for a pole or branch point at x = −1, so a polynomial of degree 19 in x gives it to rounding
error. Every term has a closed form, for all means and variances (Gauss–Hermite quadrature loses accuracy when v is
large):

    E[xᵏ; z > 0] = e^{k²v/2 − km} Φ((m − kv)/√v) = ½ e^{−m²/2v} erfcx((kv − m)/√(2v))
    E[max(z, 0)] = √v (φ(a) + a Φ(a)),   a = m/√v

and E[xᵏ; z < 0] follows with −m for m. Nothing cancels in ζ, σ or σ', so small values are accurate too.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

NUM_POWERS = 20
TINY_VARIANCE = 1e-200  # replaces a variance of zero; it is far below every rounding error


class Expectations(NamedTuple):
    """The expectations E ζ(z), E σ(z), E σ'(z), E σ''(z), E σ'''(z).

    ∂/∂m of each is the next one; ∂/∂v of each is half of the one after the next.
    """

    softplus: Tensor
    sigmoid: Tensor
    sigmoid1: Tensor
    sigmoid2: Tensor
    sigmoid3: Tensor


def _powers_of_x(g: Callable[[np.ndarray], np.ndarray]) -> list[float]:
    """Return the coefficients of x g(x) at x, ..., x^NUM_POWERS, by interpolation at Chebyshev points of [0, 1]."""
    fit = Chebyshev.interpolate(g, NUM_POWERS - 1, domain=[0, 1])
    return [float(c) for c in fit.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1]).coef]


COEFFICIENTS = torch.tensor(
    [
        _powers_of_x(lambda x: np.log1p(x) / x),
        _powers_of_x(lambda x: 1 / (1 + x)),
        _powers_of_x(lambda x: 1 / (1 + x) ** 2),
        _powers_of_x(lambda x: (1 - x) / (1 + x) ** 3),
        _powers_of_x(lambda x: (1 - 4 * x + x**2) / (1 + x) ** 4),
    ],
    dtype=torch.float64,
)


def softplus_expectations(mean: Tensor, variance: Tensor) -> Expectations:
    """Return the five expectations under N(mean, variance), float64, elementwise; for softplus(−z) pass −mean."""
    m, v = torch.broadcast_tensors(mean.double(), variance.double().clamp(min=TINY_VARIANCE))
    a = m / v.sqrt()
    right, left = _powers_right_of_zero(m, v) @ COEFFICIENTS.T, _powers_right_of_zero(-m, v) @ COEFFICIENTS.T
    return Expectations(
        softplus=v.sqrt() * _positive_part(a) + right[..., 0] + left[..., 0],
        sigmoid=_normal_cdf(a) - right[..., 1] + left[..., 1],
        sigmoid1=right[..., 2] + left[..., 2],
        sigmoid2=left[..., 3] - right[..., 3],
        sigmoid3=right[..., 4] + left[..., 4],
    )


def expected_log_sigmoid(mean: Tensor, variance: Tensor) -> Tensor:
    """Return E log σ(z) for z ~ N(mean, variance)."""
    return -softplus_expectations(-mean, variance).softplus


def expected_sigmoid(mean: Tensor, variance: Tensor) -> Tensor:
    """Return E σ(z) for z ~ N(mean, variance), the predictive probability of a logistic model."""
    return softplus_expectations(mean, variance).sigmoid


def _powers_right_of_zero(m: Tensor, v: Tensor) -> Tensor:
    """Return E[e^−kz; z > 0] for k = 1, ..., NUM_POWERS along a new last axis."""
    m, v = m.unsqueeze(-1), v.unsqueeze(-1)
    k = torch.arange(1, NUM_POWERS + 1, dtype=torch.float64)
    x = (k * v - m) / (2 * v).sqrt()
    above = 0.5 * torch.exp(-(m**2) / (2 * v)) * torch.special.erfcx(x.clamp(min=0))
    below = torch.exp(k * (k * v / 2 - m).clamp(max=0)) * _normal_cdf(-math.sqrt(2) * x)
    return torch.where(x > 0, above, below)


def _positive_part(a: Tensor) -> Tensor:
    """Return φ(a) + a Φ(a) = E max(a + ε, 0) for ε ~ N(0, 1), without cancellation for a < 0."""
    phi = torch.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    below = phi * (1 + a * math.sqrt(math.pi / 2) * torch.special.erfcx(-a.clamp(max=0) / math.sqrt(2)))
    return torch.where(a < 0, below, phi + a * _normal_cdf(a))


def _normal_cdf(a: Tensor) -> Tensor:
    """Return Φ(a), accurate in the left tail, where torch.special.ndtr = (1 + erf)/2 rounds to 0."""
    return 0.5 * torch.special.erfc(-a / math.sqrt(2))
