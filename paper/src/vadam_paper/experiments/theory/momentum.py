"""Check App. E without stochasticity: natural momentum exactly, and with Σₜ₋₁ replaced by Σₜ.

    η₊ = η + ᾱ ∇̃𝓛 + γ̄ (η − η₋),   η = (σ⁻²μ, −½σ⁻²)        §4
    ᾱ = β/(1 − a),  γ̄ = a/(1 − a)                             App. E, with its α written a

Batches are full, and expectations under q are computed by quadrature, as in ``fixed_points``.
"""

from typing import Any

import torch
from torch import Tensor

from vadam.rules import exact_momentum, natural_momentum
from vadam_paper.experiments.theory.config import Config
from vadam_paper.experiments.theory.fixed_points import PRIOR_PRECISION, expectations, problem

RATE = 0.02
MOMENTUM = 0.45 / (1 - 0.45)
INIT_PRECISION = 4.0


def check(config: Config) -> dict[str, Any]:
    """Return how far the rules are from the recursion in η and from each other, on the way and at the end."""
    X, y = problem(config)
    exact, approximate = (iterate(rule, X, y, config.fixed_point_steps) for rule in (exact_momentum, natural_momentum))
    heavy_ball = recursion(X, y, config.fixed_point_steps)
    return {
        "momentum": MOMENTUM,
        "exact_minus_recursion": (exact / heavy_ball - 1).abs().max(),
        "largest_relative_difference_of_precision": (approximate[:, 1] / exact[:, 1] - 1).abs().max(),
        "largest_difference_of_mean": (approximate[:, 0] - exact[:, 0]).abs().max(),
        "distance_of_fixed_points": (approximate[-1] - exact[-1]).abs().max(),
    }


def iterate(rule: Any, X: Tensor, y: Tensor, steps: int) -> Tensor:
    """Return (μ, σ⁻²) after every step, [T, 2, 2]."""
    N, lam = float(len(X)), PRIOR_PRECISION
    state = rule.init(torch.zeros(2, dtype=torch.float64), init_precision=INIT_PRECISION, N=N, lam=lam)
    path = []
    for _ in range(steps):
        precision = rule.precision(state, N=N, lam=lam)
        g, h = expectations(X, y, state.mu, precision.rsqrt(), "hessian")
        state = rule.update(state, g, h, alpha=RATE, beta=RATE, gamma=MOMENTUM, N=N, lam=lam)
        path.append(torch.stack([state.mu, rule.precision(state, N=N, lam=lam)]))
    return torch.stack(path)


def recursion(X: Tensor, y: Tensor, steps: int) -> Tensor:
    """Return (μ, σ⁻²) after every step by §4's recursion of the natural parameters; natural gradients are gradients in m (App. B)."""
    N, lam = float(len(X)), PRIOR_PRECISION
    mu, precision = torch.zeros(2, dtype=torch.float64), torch.full((2,), INIT_PRECISION, dtype=torch.float64)
    first, second = precision * mu, -0.5 * precision
    before = first, second
    path = []
    for _ in range(steps):
        g, h = expectations(X, y, mu, precision.rsqrt(), "hessian")
        by_mu, by_variance = -(N * g + lam * mu), -0.5 * (N * h + lam - precision)
        new_first = first + RATE * (by_mu - 2 * by_variance * mu) + MOMENTUM * (first - before[0])
        new_second = second + RATE * by_variance + MOMENTUM * (second - before[1])
        before, first, second = (first, second), new_first, new_second
        precision = -2 * second
        mu = first / precision
        path.append(torch.stack([mu, precision]))
    return torch.stack(path)
