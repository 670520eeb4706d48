"""Variational Online Newton with a full covariance (paper App. D, momentum App. E.4, ``tau`` §5): one vector of all weights.

θ ~ N(μ, Σ),  Σ⁻¹ = N (S + τλ̃ I)
S₊ = (1 − τβ) S + β Ĥ
μ₊ = μ − α (S₊ + τλ̃ I)⁻¹ (ĝ + τλ̃ (μ − μ₀)) + γ̄ (S₊ + τλ̃ I)⁻¹ (S + τλ̃ I) (μ − μ₋)

The vector kept is u = (S + τλ̃ I)(μ − μ₋): u₊ = γ̄ u − α (ĝ + τλ̃ (μ − μ₀)) and μ₊ = μ + (S₊ + τλ̃ I)⁻¹ u₊. At τ = 0 it is full-matrix
variational adaptive Newton (VAN): S is a sum and there is no prior. λ may be a vector. For small models.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import BETA, DATA_AND_PRIOR, LR, MOMENTUM, NEWTON_INIT_PRECISION, TAU
from vadam.rules.binding import Curvature
from vadam.rules.von import Scalar, pull

SCOPE = "model"
CURVATURE = Curvature.HESSIAN
ARGUMENTS = (LR._replace(default=0.1), BETA, *DATA_AND_PRIOR, NEWTON_INIT_PRECISION, MOMENTUM, TAU)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    rates = {"alpha": values["lr"], "beta": 1 - values["beta"], "gamma": values["momentum"], "tau": values["tau"]}
    return {**arguments.data_args(values), **rates}


class State(NamedTuple):
    mu: Tensor
    u: Tensor
    S: Tensor


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu), torch.diag(torch.zeros_like(mu) + (init_precision - lam) / N))


def precision(state: State, *, N: Scalar, lam: Scalar, tau: Scalar = 1.0) -> Tensor:
    return N * state.S + torch.diag(torch.zeros_like(state.mu) + tau * lam)


def deviation(state: State, eps: Tensor, *, N: Scalar, lam: Scalar, tau: Scalar = 1.0) -> Tensor:
    """Return L⁻ᵀ ε, where L Lᵀ is the precision; NaN where it is not positive definite."""
    factor, failed = torch.linalg.cholesky_ex(precision(state, N=N, lam=lam, tau=tau))
    factor = torch.where(failed == 0, factor, torch.nan)
    return torch.linalg.solve_triangular(factor.mT, eps.unsqueeze(1), upper=True).squeeze(1)


def update(
    state: State,
    g: Tensor,
    H: Tensor,
    *,
    alpha: Scalar,
    beta: Scalar,
    gamma: Scalar = 0.0,
    N: Scalar,
    lam: Scalar,
    mu0: Scalar = 0.0,
    tau: Scalar = 1.0,
) -> State:
    mu, u, S = state
    S = (1 - tau * beta) * S + beta * H
    u = gamma * u - alpha * (g + pull(mu, mu0, tau * lam / N))
    mu = mu + torch.linalg.solve_ex(precision(State(mu, u, S), N=N, lam=lam, tau=tau) / N, u)[0]
    return State(mu, u, S)
