"""Variational Online Newton with a full covariance (paper App. D): for small models, not elementwise. λ may be a vector.

θ ~ N(μ, Σ),  Σ⁻¹ = N (S + λ̃ I)
S₊ = (1 − β) S + β Ĥ
μ₊ = μ − α (S₊ + λ̃ I)⁻¹ (ĝ + λ̃ μ)
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules.von import Scalar


class State(NamedTuple):
    mu: Tensor
    S: Tensor


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.diag(torch.zeros_like(mu) + (init_precision - lam) / N))


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    return N * state.S + torch.diag(torch.zeros_like(state.mu) + lam)


def update(state: State, g: Tensor, H: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar, lam: Scalar) -> State:
    mu, S = state
    S = (1 - beta) * S + beta * H
    mu = mu - alpha * torch.linalg.solve(precision(State(mu, S), N=N, lam=lam) / N, g + lam / N * mu)
    return State(mu, S)
