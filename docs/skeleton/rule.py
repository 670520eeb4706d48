"""The online Newton step with the squared gradient as curvature: Vprop without its square root (paper App. H).

θ ~ N(μ, σ²),  σ⁻² = N (s + λ̃)
s₊ = (1 − β) s + β ĥ,  ĥ = ĝ∘ĝ
μ₊ = μ − α (ĝ + λ̃ (μ − μ₀)) / (s₊ + λ̃)
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import BETA, DATA_AND_PRIOR, INIT_PRECISION, LR
from vadam.rules.von import Scalar, pull, ratio

ARGUMENTS = (LR, BETA, *DATA_AND_PRIOR, INIT_PRECISION)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    return {**arguments.data_args(values), "alpha": values["lr"], "beta": 1 - values["beta"]}


class State(NamedTuple):
    mu: Tensor
    s: Tensor


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu) + (init_precision - lam) / N)


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    return N * state.s + lam


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
) -> State:
    mu, s = state
    s = (1 - beta) * s + beta * h
    mu = mu - alpha * ratio(g + pull(mu, mu0, lam / N), s, lam / N)
    return State(mu, s)
