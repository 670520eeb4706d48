"""Variational Adam (paper §4, Fig. 1; with ``tau`` §5).

    θ ~ N(μ, σ²),  σ⁻² = N (s/w + s₀) + τλ     line 2: without bias correction
    m ← γ₁ m + (1 − γ₁)(ĝ + τλ̃ (μ − μ₀))      line 5
    s ← (1 − τ(1 − γ₂)) s + (1 − γ₂) ĥ         line 6, ĥ = ĝ∘ĝ; γ₂ s + (1 − γ₂) ĥ at τ = 1
    m̂ ← m / (1 − γ₁ᵗ),  ŝ ← s / (1 − γ₂ᵗ)      line 7
    μ ← μ − α m̂ / (√ŝ + τλ̃)                    line 8

The paper starts s at (init_precision − λ)/N. That start is kept apart, as the number s₀ ← (1 − τ(1 − γ₂)) s₀: it belongs
to the precision, but not to ŝ. The correction divides by 1 − γ₂ᵗ because an average that starts at zero is too small at
first; a start that is not zero it would multiply by 1/(1 − γ₂), and for thousands of iterations there would be no step.
Fig. 1 to the letter is ŝ ← (s + κ s₀) / (1 − γ₂ᵗ) with κ = 1 (``start_in_step``); otherwise κ = 0.

w is 1 in the paper. With a batch size M it is Theorem 1's factor (1/M)(N − M)/(N − 1): near a minimum E[ĝ∘ĝ] = w · mean of
squared per-example gradients, so s/w is the curvature that VOGN keeps. The steps do not change.

γ₁ᵗ and γ₂ᵗ are kept as running products: right also where a schedule changes γ, and cheaper than a power for every weight.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import (
    BATCH_SIZE,
    BETAS,
    DATA_AND_PRIOR,
    INIT_PRECISION,
    LR,
    SAMPLING_PRECISION,
    START_IN_STEP,
    TAU,
)
from vadam.rules.von import Scalar, is_zero, pull, ratio

ARGUMENTS = (LR, BETAS, *DATA_AND_PRIOR, INIT_PRECISION, START_IN_STEP, BATCH_SIZE, TAU, SAMPLING_PRECISION)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    gamma1, gamma2 = values["betas"]
    rates = {"alpha": values["lr"], "gamma1": gamma1, "gamma2": gamma2, "tau": values["tau"]}
    w = arguments.theorem1_weight(values["batch_size"], values["num_data"])
    return {**arguments.data_args(values), **rates, "w": w, "kappa": float(values["start_in_step"])}


class State(NamedTuple):
    mu: Tensor
    m: Tensor
    s: Tensor
    s0: Scalar
    gamma1_t: Scalar
    gamma2_t: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu), torch.zeros_like(mu), (init_precision - lam) / N, 1.0, 1.0)


def precision(state: State, *, N: Scalar, lam: Scalar, tau: Scalar = 1.0, w: Scalar = 1.0) -> Tensor:
    return N / w * state.s + (N * state.s0 + tau * lam)


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
) -> State:
    mu, m, s, s0, gamma1_t, gamma2_t = state
    m = gamma1 * m + (1 - gamma1) * (g + pull(mu, mu0, tau * lam / N))
    s = (1 - tau * (1 - gamma2)) * s + (1 - gamma2) * h
    s0 = (1 - tau * (1 - gamma2)) * s0
    gamma1_t, gamma2_t = gamma1 * gamma1_t, gamma2 * gamma2_t
    m_hat, s_hat = m / (1 - gamma1_t), (s if is_zero(kappa) else s + kappa * s0) / (1 - gamma2_t)
    mu = mu - alpha * ratio(m_hat, s_hat.sqrt(), tau * lam / N)
    return State(mu, m, s, s0, gamma1_t, gamma2_t)
