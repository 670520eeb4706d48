"""Vadam with VOGN's curvature: Adam's steps, and a precision from the mean of squared per-example gradients.

    θ ~ N(μ, σ²),  σ⁻² = N (s/w + s₀) + τλ
    s ← (1 − τ(1 − γ₂)) s + (1 − γ₂) w ĥ,  ĥ = mean_i (∇f_i)²

The other lines are Vadam's. s averages w ĥ, and s/w is the curvature that VOGN keeps. With a batch size M, w is Theorem 1's factor
(1/M)(N − M)/(N − 1): near a minimum w ĥ = E[ĝ∘ĝ], so the steps are as long as Adam's. Without one w is 1, and steps are √M times shorter.
"""

from torch import Tensor

from vadam.rules import vadam
from vadam.rules.binding import Curvature
from vadam.rules.vadam import ARGUMENTS, State, init, precision, rule_args
from vadam.rules.von import Scalar

__all__ = ["ARGUMENTS", "State", "init", "precision", "rule_args", "update"]

CURVATURE = Curvature.PER_EXAMPLE_SQUARES


def update(
    state: State,
    g: Tensor,
    h: Tensor,
    *,
    alpha: Scalar,
    gamma1: Scalar,
    gamma2: Scalar,
    N: Scalar,
    lam: Scalar,
    mu0: Scalar = 0.0,
    tau: Scalar = 1.0,
    kappa: Scalar = 0.0,
    w: Scalar = 1.0,
) -> State:
    rates = {"alpha": alpha, "gamma1": gamma1, "gamma2": gamma2, "tau": tau, "kappa": kappa}
    return vadam.update(state, g, w * h, N=N, lam=lam, mu0=mu0, **rates)
