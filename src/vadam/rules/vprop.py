"""Variational RMSprop (paper §3.3): VON with ĥ = ĝ∘ĝ and a square root over s in the step.

θ ~ N(μ, σ²),  σ⁻² = N (s + τλ̃)
s₊ = (1 − τβ) s + β ĥ
μ₊ = μ − α (ĝ + τλ̃ μ) / (√s₊ + τλ̃)
"""

from torch import Tensor

from vadam.rules.von import Scalar, State, init, precision

__all__ = ["State", "init", "precision", "update"]


def update(
    state: State, g: Tensor, h: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar, lam: Scalar, tau: Scalar = 1.0
) -> State:
    mu, s = state
    s = (1 - tau * beta) * s + beta * h
    mu = mu - alpha * (g + tau * lam / N * mu) / (s.sqrt() + tau * lam / N)
    return State(mu, s)
