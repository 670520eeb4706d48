"""VON and VOGN with exact natural momentum (paper App. E.2 and E.3, before Σₜ₋₁ is replaced by Σₜ).

    s₊ = (1 − τβ) s + β ĥ + γ̄ (s − s₋)
    μ₊ = μ − α (ĝ + τλ̃ (μ − μ₀)) / (s₊ + τλ̃) + γ̄ (s₋ + τλ̃)/(s₊ + τλ̃) ∘ (μ − μ₋)

Both natural parameters of q are a heavy ball: with α = β it is η₊ = η + ᾱ ∇̃𝓛 + γ̄ (η − η₋). The vectors kept are the last steps,
v = s − s₋ and u = (s₋ + τλ̃) ∘ (μ − μ₋). ``damping`` is added to the denominators, which are at
least p₊/ξ, as in VON.

A heavy ball can carry a falling precision below zero, also where ĥ ≥ 0. So the precision at most halves in a step:
s₊ + τλ̃ ≥ δ (s + τλ̃), δ = ½, the margin of App. D.1.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules import von
from vadam.rules.von import ARGUMENTS, CURVATURE, Scalar, precision, pull, ratio, rule_args

__all__ = ["ARGUMENTS", "CURVATURE", "State", "init", "precision", "rule_args", "update"]

DELTA = 0.5


class State(NamedTuple):
    mu: Tensor
    u: Tensor
    v: Tensor
    s: Tensor


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    s = von.init(mu, init_precision=init_precision, N=N, lam=lam).s
    return State(mu, torch.zeros_like(s), torch.zeros_like(s), s)


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
    mu, u, v, s = state
    old = s + tau * lam / N
    v = (gamma * v + beta * (h - tau * s)).clamp(min=(DELTA - 1) * old)
    s = s + v
    step = ratio(gamma * u - alpha * (g + pull(mu, mu0, tau * lam / N)), s, tau * lam / N + damping, peak / xi)
    return State(mu + step, (old + damping) * step, v, s)
