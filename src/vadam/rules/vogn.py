"""Variational Online Gauss-Newton (paper §3.2): VON's update with ĥ = mean_i (∇f_i)², the mean of squared per-example gradients.

    s₊ = (1 − τβ) s + β ĥ
    μ₊ = μ − α (ĝ + τλ̃ (μ − μ₀)) / (s₊ + τλ̃)

The equations are VON's; what differs is where ĥ comes from, and ĥ ≥ 0 keeps the variance positive without back-tracking.
"""

from vadam.rules.binding import Curvature
from vadam.rules.von import ARGUMENTS_OF_VOGN as ARGUMENTS
from vadam.rules.von import MOMENTUM_RULES, State, init, precision, rule_args, update

__all__ = ["ARGUMENTS", "MOMENTUM_RULES", "State", "init", "precision", "rule_args", "update"]

CURVATURE = Curvature.PER_EXAMPLE_SQUARES
