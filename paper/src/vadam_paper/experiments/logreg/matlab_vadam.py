"""Vadam as the authors' logistic-regression program computes it, which differs from Fig. 1.

    θ ~ N(μ, 1/P)                              P₀ = 1
    m ← 0.9 m + 0.1 (Nĝ + λμ)
    S ← (1 − β_t) S + β_t N ĥ                  S₀ = 1, ĥ = ĝ∘ĝ
    Ŝ ← S / (1 − (1 − β_t)ᵗ)                   a power of the current β_t
    P ← Ŝ + λ                                  the variance uses the corrected Ŝ
    μ ← μ − α_t m/(1 − 0.9ᵗ) / (√Ŝ + λ)

With S = Ns the step is α_t √N (ĝ + λ̃μ) / (√ŝ + λ/√N): √N times that of Fig. 1, with λ/√N in the place of λ/N.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules.von import Scalar

GAMMA1 = 0.9


class State(NamedTuple):
    mu: Tensor
    m: Tensor
    S: Tensor
    P: Tensor
    t: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    P = torch.zeros_like(mu) + init_precision
    return State(mu, torch.zeros_like(mu), P, P.clone(), 0.0)


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    return state.P


def update(state: State, g: Tensor, h: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar, lam: Scalar) -> State:
    mu, m, S, _, t = state
    t = t + 1
    m = GAMMA1 * m + (1 - GAMMA1) * (N * g + lam * mu)
    S = (1 - beta) * S + beta * N * h
    m_hat, S_hat = m / (1 - GAMMA1**t), S / (1 - (1 - beta) ** t)
    mu = mu - alpha * m_hat / (S_hat.sqrt() + lam)
    return State(mu, m, S, S_hat + lam, t)
