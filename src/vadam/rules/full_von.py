"""Variational Online Newton with a full covariance (paper App. D): for small models, one vector of all weights. λ may be a vector.

θ ~ N(μ, Σ),  Σ⁻¹ = N (S + λ̃ I)
S₊ = (1 − β) S + β Ĥ
μ₊ = μ − α (S₊ + λ̃ I)⁻¹ (ĝ + λ̃ (μ − μ₀))
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import BETA, DATA_AND_PRIOR, INIT_PRECISION, LR
from vadam.rules.binding import Curvature
from vadam.rules.von import Scalar, pull

SCOPE = "model"
CURVATURE = Curvature.HESSIAN
ARGUMENTS = (LR._replace(default=0.1), BETA._replace(default=0.9), *DATA_AND_PRIOR, INIT_PRECISION)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    return {**arguments.data_args(values), "alpha": values["lr"], "beta": 1 - values["beta"]}


class State(NamedTuple):
    mu: Tensor
    S: Tensor


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.diag(torch.zeros_like(mu) + (init_precision - lam) / N))


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    return N * state.S + torch.diag(torch.zeros_like(state.mu) + lam)


def deviation(state: State, eps: Tensor, *, N: Scalar, lam: Scalar) -> Tensor:
    """Return L⁻ᵀ ε, where L Lᵀ is the precision; NaN where it is not positive definite."""
    factor, failed = torch.linalg.cholesky_ex(precision(state, N=N, lam=lam))
    factor = torch.where(failed == 0, factor, torch.nan)
    return torch.linalg.solve_triangular(factor.mT, eps.unsqueeze(1), upper=True).squeeze(1)


def update(
    state: State, g: Tensor, H: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar, lam: Scalar, mu0: Scalar = 0.0
) -> State:
    mu, S = state
    S = (1 - beta) * S + beta * H
    mu = mu - alpha * torch.linalg.solve_ex(precision(State(mu, S), N=N, lam=lam) / N, g + pull(mu, mu0, lam / N))[0]
    return State(mu, S)
