"""VON and VOGN with natural momentum (paper §4, App. E).

    s₊ = (1 − τβ) s + β ĥ
    μ₊ = μ − α (ĝ + τλ̃ (μ − μ₀)) / (s₊ + τλ̃) + γ̄ (s + τλ̃)/(s₊ + τλ̃) ∘ (μ − μ₋)

The vector kept is not μ₋ but u = (s + τλ̃) ∘ (μ − μ₋), the last step in natural coordinates: then u₊ = γ̄ u − α (ĝ + τλ̃ (μ − μ₀)) and
μ₊ = μ + u₊ / (s₊ + τλ̃), the same update without a quotient of precisions. ``damping`` is added to the
denominators, which are at least p₊/ξ, as in VON.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules import von
from vadam.rules.von import ARGUMENTS, CURVATURE, Scalar, precision, pull, ratio, rule_args

__all__ = ["ARGUMENTS", "CURVATURE", "State", "init", "precision", "rule_args", "update"]


class State(NamedTuple):
    mu: Tensor
    u: Tensor
    s: Tensor


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu), von.init(mu, init_precision=init_precision, N=N, lam=lam).s)


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
    damping: Scalar = 0.0,
    peak: Scalar = 0.0,
    xi: Scalar = math.inf,
) -> State:
    mu, u, s = state
    s = (1 - tau * beta) * s + beta * h
    u = gamma * u - alpha * (g + pull(mu, mu0, tau * lam / N))
    mu = mu + ratio(u, s, tau * lam / N + damping, peak / xi)
    return State(mu, u, s)
