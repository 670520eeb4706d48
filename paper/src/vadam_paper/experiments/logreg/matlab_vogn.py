"""VOGN with momentum as the authors' program computes it on breast cancer and USPS.

    θ ~ N(μ, 1/P)                              P₀ = 1
    m ← 0.9 m + 0.1 (Nĝ + λμ)
    P ← (1 − β) P + β (N ĥ + λ)                ĥ = mean of squared per-example gradients
    μ ← μ − α m/(1 − 0.9ᵗ) / P

The momentum is Adam's, with bias correction, not the natural momentum of §4.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules.von import Scalar

GAMMA1 = 0.9


class State(NamedTuple):
    mu: Tensor
    m: Tensor
    P: Tensor
    t: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu), torch.zeros_like(mu) + init_precision, 0.0)


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    return state.P


def update(state: State, g: Tensor, h: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar, lam: Scalar) -> State:
    mu, m, P, t = state
    t = t + 1
    m = GAMMA1 * m + (1 - GAMMA1) * (N * g + lam * mu)
    P = (1 - beta) * P + beta * (N * h + lam)
    mu = mu - alpha * (m / (1 - GAMMA1**t)) / P
    return State(mu, m, P, t)
