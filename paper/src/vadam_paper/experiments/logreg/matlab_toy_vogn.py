"""VOGN with momentum as the authors' toy program computes it, with the curvature bias-corrected as in their Vadam.

θ ~ N(μ, 1/P)                              P₀ = 1
m ← 0.9 m + 0.1 (Nĝ + λμ)
S ← (1 − β_t) S + β_t N ĥ                  S₀ = 1, ĥ = mean of squared per-example gradients
P ← S / (1 − (1 − β_t)ᵗ) + λ
μ ← μ − α_t m/(1 − 0.9ᵗ) / P
"""

from torch import Tensor

from vadam.rules.von import Scalar
from vadam_paper.experiments.logreg.matlab_vadam import GAMMA1, State, init, precision

__all__ = ["State", "init", "precision", "update"]


def update(state: State, g: Tensor, h: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar, lam: Scalar) -> State:
    mu, m, S, _, t = state
    t = t + 1
    m = GAMMA1 * m + (1 - GAMMA1) * (N * g + lam * mu)
    S = (1 - beta) * S + beta * N * h
    P = S / (1 - (1 - beta) ** t) + lam
    mu = mu - alpha * (m / (1 - GAMMA1**t)) / P
    return State(mu, m, S, P, t)
