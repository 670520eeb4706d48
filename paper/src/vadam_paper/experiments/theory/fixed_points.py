"""Check App. H without stochasticity: does the square root move the fixed point?

Batches are full, and E_q[∇f] and E_q[(∇f)²] are computed by a product of Gauss-Hermite rules in two dimensions.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadam.exact import logistic
from vadam.rules import von, vprop
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.theory.config import Config

NUM_DATA = 30
PRIOR_PRECISION = 1.0
NODES = 40
RATE = 0.02


def check(config: Config) -> dict[str, Any]:
    X, y = problem(config)
    magnitude = {name: iterate(rule, X, y, config.fixed_point_steps, "magnitude") for name, rule in rules().items()}
    newton = iterate(von, X, y, config.fixed_point_steps, "hessian")
    exact = logistic.mean_field(X, y, PRIOR_PRECISION)
    with_root, without = magnitude["with square root"], magnitude["without square root"]
    return {
        "runs": {name: _summary(path) for name, path in magnitude.items()},
        "distance_of_fixed_points": (with_root[-1] - without[-1]).abs().max(),
        "largest_distance_of_paths": (with_root - without).abs().max(),
        "residual": {name: residual(X, y, path[-1]) for name, path in magnitude.items()},
        "von_to_mean_field_optimum": (newton[-1] - torch.stack([exact.mean, exact.stddev])).abs().max(),
        "magnitude_to_mean_field_optimum": (with_root[-1] - torch.stack([exact.mean, exact.stddev])).abs().max(),
    }


def rules() -> dict[str, Any]:
    return {"with square root": vprop, "without square root": von}


def problem(config: Config) -> tuple[Tensor, Tensor]:
    random = generator(config.seed, "fixed-points")
    X = torch.randn(NUM_DATA, 2, generator=random, dtype=torch.float64)
    w = torch.tensor([1.5, -1.0], dtype=torch.float64)
    y = (torch.rand(NUM_DATA, generator=random, dtype=torch.float64) < torch.sigmoid(X @ w)).double()
    return X, y


def iterate(rule: Any, X: Tensor, y: Tensor, steps: int, curvature: str) -> Tensor:
    """Return (μ, σ) at every step, [T + 1, 2, 2]."""
    N, lam = float(len(X)), PRIOR_PRECISION
    state = rule.init(torch.zeros(2, dtype=torch.float64), init_precision=4.0, N=N, lam=lam)
    path = [torch.stack([state.mu, rule.precision(state, N=N, lam=lam).rsqrt()])]
    for _ in range(steps):
        g, h = expectations(X, y, path[-1][0], path[-1][1], curvature)
        state = rule.update(state, g, h, alpha=RATE, beta=RATE, N=N, lam=lam)
        path.append(torch.stack([state.mu, rule.precision(state, N=N, lam=lam).rsqrt()]))
    return torch.stack(path)


def expectations(X: Tensor, y: Tensor, mu: Tensor, sigma: Tensor, curvature: str) -> tuple[Tensor, Tensor]:
    """Return E_q[∇f], and E_q[(∇f)²] or E_q[diag ∇²f]."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    z, w = torch.as_tensor(nodes), torch.as_tensor(weights / weights.sum())
    theta = mu + sigma * torch.cartesian_prod(z, z)
    weight = (w[:, None] * w).flatten()[:, None]
    p = torch.sigmoid(theta @ X.T)
    g = (p - y) @ X / len(X)
    h = g**2 if curvature == "magnitude" else (p * (1 - p)) @ X**2 / len(X)
    return (weight * g).sum(0), (weight * h).sum(0)


def residual(X: Tensor, y: Tensor, end: Tensor) -> Tensor:
    """Return the largest residual of App. H's two equations, N E[∇f] + λμ and N E[(∇f)²] + λ − σ⁻²."""
    g, h = expectations(X, y, end[0], end[1], "magnitude")
    N, lam = len(X), PRIOR_PRECISION
    return torch.stack([N * g + lam * end[0], N * h + lam - end[1] ** -2]).abs().max()


def _summary(path: Tensor) -> dict[str, Any]:
    distance = (path - path[-1]).abs().flatten(1).max(1).values
    settled = int((distance > 1e-3).sum())
    shown = path[: max(settled, 1) : max(1, settled // 100)]
    end = {"mean": path[-1, 0], "stddev": path[-1, 1]}
    return end | {"steps_to_1e-3": settled, "first_mean_and_stddev": shown[:, :, 0]}
