"""Black-box variational inference (paper §2, the baseline): Adam on the mean and on the parameter ρ of the standard deviation.

    θ = μ + σ∘ε,  σ = log(1 + e^ρ)
    ∇_μ (−𝓛/N) = ĝ + λ̃ (μ − μ₀)
    ∇_σ (−𝓛/N) = ĝ∘ε + (λσ − 1/σ)/N
    ∇_ρ = ∇_σ / (1 + e^−ρ)
    (μ, ρ) ← Adam(∇_μ, ∇_ρ)

ĥ is the reparameterised curvature ĝ∘ε/σ that VON uses, so ĝ∘ε = ĥσ: stochastic layers are not needed.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from vadam.rules import arguments
from vadam.rules.arguments import BETAS, DATA_AND_PRIOR, EPS, LR, Argument
from vadam.rules.binding import Curvature
from vadam.rules.von import Scalar, pull

CURVATURE = Curvature.REPARAMETERISED
ARGUMENTS = (
    LR,
    BETAS,
    EPS,
    *DATA_AND_PRIOR,
    Argument(
        "init_precision",
        None,
        "(0, inf)",
        'Precision of the posterior at the start, also below the prior\'s; by default 10 num_data. "prior" starts at the prior.',
        words=("prior",),
    ),
)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    gamma1, gamma2 = values["betas"]
    rates = {"alpha": values["lr"], "gamma1": gamma1, "gamma2": gamma2, "eps": values["eps"]}
    return {**arguments.data_args(values), **rates}


class State(NamedTuple):
    mu: Tensor
    rho: Tensor
    m_mu: Tensor
    s_mu: Tensor
    m_rho: Tensor
    s_rho: Tensor
    gamma1_t: Scalar
    gamma2_t: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    sigma = (torch.zeros_like(mu) + init_precision).rsqrt()
    zero = torch.zeros_like(mu)
    return State(mu, sigma + torch.log(-torch.expm1(-sigma)), zero, zero.clone(), zero.clone(), zero.clone(), 1.0, 1.0)


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    return softplus(state.rho) ** -2


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
    mu, rho, m_mu, s_mu, m_rho, s_rho, gamma1_t, gamma2_t = state
    gamma1_t, gamma2_t = gamma1 * gamma1_t, gamma2 * gamma2_t
    sigma = softplus(rho)
    g_mu = g + pull(mu, mu0, lam / N)
    g_sigma = (h + lam / N) * sigma - 1 / N / sigma
    g_rho = g_sigma * torch.sigmoid(rho)

    m_mu, s_mu = gamma1 * m_mu + (1 - gamma1) * g_mu, gamma2 * s_mu + (1 - gamma2) * g_mu**2
    m_rho, s_rho = gamma1 * m_rho + (1 - gamma1) * g_rho, gamma2 * s_rho + (1 - gamma2) * g_rho**2
    root = (1 - gamma2_t) ** 0.5  # m̂/(√ŝ + δ) = √(1 − γ₂ᵗ)/(1 − γ₁ᵗ) m/(√s + δ√(1 − γ₂ᵗ))
    mu = mu - alpha * root / (1 - gamma1_t) * m_mu / (s_mu.sqrt() + eps * root)
    rho = rho - alpha * root / (1 - gamma1_t) * m_rho / (s_rho.sqrt() + eps * root)
    return State(mu, rho, m_mu, s_mu, m_rho, s_rho, gamma1_t, gamma2_t)
