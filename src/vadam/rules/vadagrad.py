"""Variational AdaGrad (paper §5, App. F): variational optimisation, the limit τ = 0 of Vprop.

    θ ~ N(μ, σ²),  σ⁻² = N s
    s₊ = s + β ĥ,  ĥ = ĝ∘ĝ
    μ₊ = μ − α ĝ / √s₊

There is no prior. s never decreases, so the variance never grows. The paper minimises F itself: N = 1.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vadam.rules.arguments import DATA_WEIGHT, LR, NUM_DATA, REQUIRED, TEMPERATURE, Argument
from vadam.rules.von import Scalar, State

__all__ = ["ARGUMENTS", "State", "init", "precision", "rule_args", "update"]

ARGUMENTS = (
    LR._replace(default=1e-2),
    Argument("beta", 1.0, "(0, 1e15]", "Weight β of the new squared gradient."),
    Argument(
        "init_precision", REQUIRED, "(0, inf)", "Precision of the posterior at the start.", "e.g. init_precision=1e4"
    ),
    NUM_DATA._replace(default=1),
    DATA_WEIGHT,
    TEMPERATURE,
)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    N = values["num_data"] * values["data_weight"] / values["temperature"]
    return {"alpha": values["lr"], "beta": values["beta"], "N": N, "init_precision": values["init_precision"]}


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar) -> State:
    return State(mu, torch.zeros_like(mu) + init_precision / N)


def precision(state: State, *, N: Scalar) -> Tensor:
    return N * state.s


def update(state: State, g: Tensor, h: Tensor, *, alpha: Scalar, beta: Scalar, N: Scalar) -> State:
    mu, s = state
    s = s + beta * h
    mu = mu - alpha * g / s.sqrt()
    return State(mu, s)
