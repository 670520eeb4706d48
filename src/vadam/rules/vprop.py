"""Variational RMSprop (paper §3.3): VON with ĥ = ĝ∘ĝ and a square root over s in the step.

    θ ~ N(μ, σ²),  σ⁻² = N (s/w + s₀ + τλ̃)
    s₊ = (1 − τβ) s + β ĥ,  s₀₊ = (1 − τβ) s₀
    μ₊ = μ − α (ĝ + τλ̃ (μ − μ₀)) / (√(s₊ + κ s₀₊) + τλ̃)

The start (init_precision − λ)/N is kept apart as the number s₀, as in Vadam: it belongs to the precision, but not to the step, where a
start as narrow as a deep network needs would leave no step for thousands of iterations. The paper to the letter is κ = 1
(``start_in_step``); otherwise κ = 0. w is Theorem 1's factor (1/M)(N − M)/(N − 1) where the batch size M is given, otherwise 1.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import BATCH_SIZE, BETA, DATA_AND_PRIOR, INIT_PRECISION, LR, MOMENTUM, START_IN_STEP, TAU
from vadam.rules.von import Scalar, is_zero, pull, ratio

MOMENTUM_RULES = {False: "vprop_momentum"}
ARGUMENTS = (LR, BETA, *DATA_AND_PRIOR, INIT_PRECISION, START_IN_STEP, MOMENTUM, BATCH_SIZE, TAU)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    return {
        **arguments.data_args(values),
        "alpha": values["lr"],
        "beta": 1 - values["beta"],
        "gamma": values["momentum"],
        "tau": values["tau"],
        "kappa": float(values["start_in_step"]),
        "w": arguments.theorem1_weight(values["batch_size"], values["num_data"]),
    }


class State(NamedTuple):
    mu: Tensor
    s: Tensor
    s0: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu), (init_precision - lam) / N)


def precision(state: State, *, N: Scalar, lam: Scalar, tau: Scalar = 1.0, w: Scalar = 1.0) -> Tensor:
    return N / w * state.s + (N * state.s0 + tau * lam)


def root(s: Tensor, s0: Scalar, kappa: Scalar) -> Tensor:
    """Return √(s + κ s₀), the scale of the step."""
    return (s if is_zero(kappa) else s + kappa * s0).sqrt()


def update(
    state: State,
    g: Tensor,
    h: Tensor,
    *,
    alpha: Scalar,
    beta: Scalar,
    N: Scalar,
    lam: Scalar,
    mu0: Scalar = 0.0,
    tau: Scalar = 1.0,
    kappa: Scalar = 0.0,
) -> State:
    mu, s, s0 = state
    s, s0 = (1 - tau * beta) * s + beta * h, (1 - tau * beta) * s0
    mu = mu - alpha * ratio(g + pull(mu, mu0, tau * lam / N), root(s, s0, kappa), tau * lam / N)
    return State(mu, s, s0)
