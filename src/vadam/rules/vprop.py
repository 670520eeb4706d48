"""Variational RMSprop (paper §3.3): VON with ĥ = ĝ∘ĝ and a square root over s in the step.

θ ~ N(μ, σ²),  σ⁻² = N (s + τλ̃)
s₊ = (1 − τβ) s + β ĥ
μ₊ = μ − α (ĝ + τλ̃ μ) / (√s₊ + τλ̃)
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import BETA, INIT_PRECISION, LR, NUM_DATA, PRIOR_PRECISION, TAU
from vadam.rules.von import Scalar, State, init, precision, ratio

__all__ = ["ARGUMENTS", "State", "init", "precision", "rule_args", "update"]

ARGUMENTS = (LR, BETA, NUM_DATA, PRIOR_PRECISION, INIT_PRECISION, TAU)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    return {
        **arguments.data_args(values),
        "alpha": values["lr"],
        "beta": 1 - values["beta"],
        "tau": values["tau"],
    }


def update(
    state: State, g: Tensor, h: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar, lam: Scalar, tau: Scalar = 1.0
) -> State:
    mu, s = state
    s = (1 - tau * beta) * s + beta * h
    mu = mu - alpha * ratio(g + tau * lam / N * mu, s.sqrt(), tau * lam / N)
    return State(mu, s)
