"""Vprop with natural momentum (paper App. E.4, the step before Vadam's bias correction).

    s₊ = (1 − τβ) s + β ĥ,  s₀₊ = (1 − τβ) s₀
    μ₊ = μ − α (ĝ + τλ̃ (μ − μ₀)) / (r₊ + τλ̃) + γ̄ (r + τλ̃)/(r₊ + τλ̃) ∘ (μ − μ₋),  r = √(s + κ s₀)

The vector kept is u = (r + τλ̃) ∘ (μ − μ₋), as in ``natural_momentum``. The rest is ``vprop``'s.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules.von import Scalar, pull, ratio
from vadam.rules.vprop import ARGUMENTS, precision, root, rule_args

__all__ = ["ARGUMENTS", "State", "init", "precision", "rule_args", "update"]


class State(NamedTuple):
    mu: Tensor
    u: Tensor
    s: Tensor
    s0: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu), torch.zeros_like(mu), (init_precision - lam) / N)


def update(
    state: State,
    g: Tensor,
    h: Tensor,
    *,
    alpha: Scalar,
    beta: Scalar,
    gamma: Scalar,
    N: Scalar,
    lam: Scalar,
    mu0: Scalar = 0.0,
    tau: Scalar = 1.0,
    kappa: Scalar = 0.0,
) -> State:
    mu, u, s, s0 = state
    s, s0 = (1 - tau * beta) * s + beta * h, (1 - tau * beta) * s0
    u = gamma * u - alpha * (g + pull(mu, mu0, tau * lam / N))
    mu = mu + ratio(u, root(s, s0, kappa), tau * lam / N)
    return State(mu, u, s, s0)
