"""Variational AdaGrad (paper §5, App. F): variational optimisation, the limit τ = 0 of Vprop.

    θ ~ N(μ, σ²),  σ⁻² = N s
    s₊ = s + β ĥ,  ĥ = ĝ∘ĝ
    μ₊ = μ − α ĝ / √s₊

There is no prior. s never decreases, so the variance never grows. The paper minimises F itself: N = 1.
"""

import torch
from torch import Tensor

from vadam.rules.von import Scalar, State

__all__ = ["State", "init", "precision", "update"]


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar) -> State:
    return State(mu, torch.zeros_like(mu) + init_precision / N)


def precision(state: State, *, N: Scalar) -> Tensor:
    return N * state.s


def update(state: State, g: Tensor, h: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar) -> State:
    mu, s = state
    s = s + beta * h
    mu = mu - alpha * g / s.sqrt()
    return State(mu, s)
