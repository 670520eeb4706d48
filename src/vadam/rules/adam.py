"""Adam on the posterior mode: a rule without a posterior, for MAP and MC-Dropout. The weights are not sampled.

g ← ĝ + λ̃ (μ − μ₀)
m ← γ₁ m + (1 − γ₁) g,  s ← γ₂ s + (1 − γ₂) g∘g
m̂ ← m / (1 − γ₁ᵗ),  ŝ ← s / (1 − γ₂ᵗ)
μ ← μ − α m̂ / (√ŝ + δ)
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules.arguments import BETAS, EPS, LR, NUM_DATA, PRIOR, PRIOR_PRECISION
from vadam.rules.binding import Curvature
from vadam.rules.von import Scalar, pull

CURVATURE = Curvature.NONE
ARGUMENTS = (LR, BETAS, EPS, NUM_DATA, PRIOR_PRECISION, PRIOR)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    gamma1, gamma2 = values["betas"]
    rates = {"alpha": values["lr"], "gamma1": gamma1, "gamma2": gamma2, "eps": values["eps"]}
    return {"N": values["num_data"], "lam": values["prior_precision"], "mu0": values["prior"], **rates}


class State(NamedTuple):
    mu: Tensor
    m: Tensor
    s: Tensor
    gamma1_t: Scalar
    gamma2_t: Scalar


def init(mu: Tensor) -> State:
    return State(mu, torch.zeros_like(mu), torch.zeros_like(mu), 1.0, 1.0)


def update(
    state: State,
    g: Tensor,
    h: Tensor,
    *,
    alpha: Scalar,
    gamma1: Scalar,
    gamma2: Scalar,
    N: Scalar,
    lam: Scalar,
    mu0: Scalar = 0.0,
    eps: Scalar = 1e-8,
) -> State:
    mu, m, s, gamma1_t, gamma2_t = state
    gamma1_t, gamma2_t = gamma1 * gamma1_t, gamma2 * gamma2_t
    g = g + pull(mu, mu0, lam / N)
    m, s = gamma1 * m + (1 - gamma1) * g, gamma2 * s + (1 - gamma2) * g * g
    m_hat, s_hat = m / (1 - gamma1_t), s / (1 - gamma2_t)
    mu = mu - alpha * m_hat / (s_hat.sqrt() + eps)
    return State(mu, m, s, gamma1_t, gamma2_t)
