"""Adam on the posterior mode: the rule of MAP and MC-Dropout, in the form of ``vadam.rules``.

g ← ĝ + λ̃ μ
m ← γ₁ m + (1 − γ₁) g,  s ← γ₂ s + (1 − γ₂) g∘g
μ ← μ − α m̂ / (√ŝ + δ),  m̂ = m/(1 − γ₁ᵗ),  ŝ = s/(1 − γ₂ᵗ)
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules.von import Scalar


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
    *,
    alpha: Scalar,
    gamma1: Scalar,
    gamma2: Scalar,
    N: Scalar,
    lam: Scalar,
    eps: Scalar = 1e-8,
) -> State:
    mu, m, s, gamma1_t, gamma2_t = state
    gamma1_t, gamma2_t = gamma1 * gamma1_t, gamma2 * gamma2_t
    g = g + lam / N * mu
    m, s = gamma1 * m + (1 - gamma1) * g, gamma2 * s + (1 - gamma2) * g * g
    m_hat, s_hat = m / (1 - gamma1_t), s / (1 - gamma2_t)
    mu = mu - alpha * m_hat / (s_hat.sqrt() + eps)
    return State(mu, m, s, gamma1_t, gamma2_t)
