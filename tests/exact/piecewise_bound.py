"""Marlin, Khan and Murphy's (2011) piecewise quadratic bound on the softplus: a check of ``vadam.exact.logistic``.

    ζ(z) = log(1 + eᶻ) ≤ αᵣ z² + βᵣ z + γᵣ  on the r-th of R intervals, never more than δ above it

so an ELBO with E ζ replaced by the bound's Gaussian expectation, which truncated moments give in closed form, is at
most the exact ELBO and at least that minus Nδ. This is what the authors' MF-Exact maximises (R = 20, L-BFGS).

ζ(z) − z/2 is even, so the bound is fitted for z ≥ 0 and mirrored. On each interval the best quadratic above ζ is its
minimax approximation raised by the error; beyond the last one the bound is z + δ. The intervals are such that all
errors are the same δ.
"""

import math
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vadam.exact.inputs import Array, prior_diagonal, signed_rows
from vadam.exact.logistic import Fit

TAIL = 1e9  # stands for infinity: finite, so that its products with a vanishing density are zero


class Bound(NamedTuple):
    """ζ(z) ≤ quadratic z² + linear z + constant for lower < z ≤ upper, with at most ``max_error`` between the two."""

    lower: Tensor
    upper: Tensor
    quadratic: Tensor
    linear: Tensor
    constant: Tensor
    max_error: float


@cache
def softplus_bound(pieces: int = 20) -> Bound:
    """Return the bound with an even number of intervals that minimises the largest error."""
    if pieces < 4 or pieces % 2:
        raise ValueError(f"pieces must be an even number from 4 on, not {pieces}")
    knots = _knots(pieces // 2 - 1)
    fits = [_minimax_quadratic(lower, upper) for lower, upper in pairwise(knots)]
    delta = max(float(_remainder(knots[-1])), *(2 * error for _, error in fits))

    right = [(0.0, 1.0, delta, knots[-1], TAIL)]
    for ((constant, linear, quadratic), error), lower, upper in zip(fits, knots, knots[1:], strict=False):
        right.append((quadratic, 1 + linear, constant + error, lower, upper))
    left = [(quadratic, 1 - linear, constant, -upper, -lower) for quadratic, linear, constant, lower, upper in right]
    quadratic, linear, constant, lower, upper = torch.tensor(left + right, dtype=torch.float64).T
    return Bound(lower, upper, quadratic, linear, constant, max_error=delta)


def expected_softplus_bound(mean: Tensor, variance: Tensor, bound: Bound) -> Tensor:
    """Return the bound's expectation under N(mean, variance), at least E ζ; differentiable.

    With a = (lower − m)/√v and b = (upper − m)/√v, the moments of N(0, 1) between them are M₀ = Φ(b) − Φ(a),
    M₁ = φ(a) − φ(b) and M₂ = M₀ + a φ(a) − b φ(b).
    """
    m, s = mean[..., None], variance.sqrt()[..., None]
    a, b = (bound.lower - m) / s, (bound.upper - m) / s
    phi_a, phi_b = _density(a), _density(b)
    M0 = torch.special.ndtr(b) - torch.special.ndtr(a)
    M1 = phi_a - phi_b
    M2 = M0 + a * phi_a - b * phi_b
    z0, z1, z2 = M0, m * M0 + s * M1, m**2 * M0 + 2 * m * s * M1 + s**2 * M2
    return (bound.quadratic * z2 + bound.linear * z1 + bound.constant * z0).sum(-1)


def elbo(
    X: Array, y: Array, mean: Tensor, stddev: Tensor, prior_precision: float | Array, *, pieces: int = 20
) -> Tensor:
    """Return a lower bound on ``logistic.elbo`` of a mean-field Gaussian, at most N times the bound's error below it."""
    A = -signed_rows(X, y)
    lam = prior_diagonal(prior_precision, A.shape[1])
    expected_nll = expected_softplus_bound(A @ mean, A**2 @ stddev**2, softplus_bound(pieces)).sum()
    kl = 0.5 * (lam * (mean**2 + stddev**2) - 1 - (lam * stddev**2).log()).sum()
    return -expected_nll - kl


def mean_field(X: Array, y: Array, prior_precision: float | Array, *, pieces: int = 20, tolerance: float = 1e-7) -> Fit:
    """Return the mean-field Gaussian that maximises the bounded ELBO, by L-BFGS on the mean and log standard deviation.

    ``elbo`` of the result is the bound, ``gradient_norm`` the largest element of its gradient.
    """
    A = -signed_rows(X, y)
    lam = prior_diagonal(prior_precision, A.shape[1])
    scale = (lam + (A**2).sum(0) / 4).rsqrt()
    u, log_s = torch.zeros_like(lam, requires_grad=True), scale.log().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [u, log_s],
        max_iter=5000,
        tolerance_grad=tolerance,
        tolerance_change=0.0,
        history_size=50,
        line_search_fn="strong_wolfe",
    )

    def nelbo() -> Tensor:
        optimizer.zero_grad()
        loss = -elbo(X, y, scale * u, log_s.exp(), lam, pieces=pieces)
        loss.backward()
        return loss

    optimizer.step(nelbo)
    final = -nelbo().item()
    assert u.grad is not None
    assert log_s.grad is not None
    norm = max(u.grad.abs().max().item(), log_s.grad.abs().max().item())
    iterations = optimizer.state[u]["n_iter"]
    return Fit((scale * u).detach(), (2 * log_s).exp().detach(), lam, final, len(A), norm, iterations)


def _remainder(z: np.ndarray) -> np.ndarray:
    """Return ζ(z) − z."""
    return np.log1p(np.exp(-z))


def _knots(intervals: int) -> np.ndarray:
    """Return knots 0 = t₀ < ... < t for which the best quadratic above ζ has the same error δ in each interval."""
    knots = np.linspace(0, 5, intervals + 1)
    for _ in range(100):
        deltas = np.array([2 * _minimax_quadratic(lower, upper)[1] for lower, upper in pairwise(knots)])
        lengths = np.diff(knots) * deltas ** (-1 / 3)  # an error grows about as the cube of the length
        tail = (knots[-1] - np.log(np.expm1(deltas.mean()))) / 2
        new = np.append(0, np.cumsum(lengths) / lengths.sum() * tail)
        if np.abs(new - knots).max() < 1e-9:
            break
        knots = new
    return new


def _minimax_quadratic(lower: float, upper: float) -> tuple[np.ndarray, float]:
    """Return the coefficients (1, z, z²) of the best quadratic approximation of ζ(z) − z, and its error (Remez).

    For z > 0 the derivative is concave, so the error alternates at both ends and at two points between, where a line
    meets the derivative: Newton's method, started at the ends, goes to them without overshooting.
    """
    points = lower + (upper - lower) * np.array([0, 0.25, 0.75, 1])
    for _ in range(15):
        system = np.stack([np.ones(4), points, points**2, [1, -1, 1, -1]], axis=1)
        constant, linear, quadratic, error = np.linalg.solve(system, _remainder(points))
        inner = points[[0, 3]]
        for _ in range(15):
            sigmoid = 1 / (1 + np.exp(inner))
            inner = inner + (sigmoid + linear + 2 * quadratic * inner) / (sigmoid * (1 - sigmoid) - 2 * quadratic)
        moved = np.abs(inner - points[1:3]).max()
        points[1:3] = inner
        if moved < 1e-9 * (upper - lower):
            break
    return np.array([constant, linear, quadratic]), float(error)


def _density(a: Tensor) -> Tensor:
    return torch.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
