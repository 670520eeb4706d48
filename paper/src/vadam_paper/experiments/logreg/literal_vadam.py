"""Fig. 1 taken literally where γ₂ changes from step to step: ŝ = s/(1 − γ₂ᵗ) with a power of the current γ₂.

``vadam.rules.vadam`` uses the product of all γ₂ so far instead, which is the factor of the start in the average. At
constant rates both agree.
"""

from typing import NamedTuple

from torch import Tensor

from vadam.rules import vadam
from vadam.rules.vadam import precision
from vadam.rules.von import Scalar

__all__ = ["State", "init", "precision", "update"]


class State(NamedTuple):
    mu: Tensor
    m: Tensor
    s: Tensor
    s0: Scalar
    t: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(*vadam.init(mu, init_precision=init_precision, N=N, lam=lam)[:4], 0.0)


def update(state: State, g: Tensor, h: Tensor, *, gamma1: Scalar, gamma2: Scalar, **rule_args: Scalar) -> State:
    mu, m, s, s0, t = state
    powers = vadam.State(mu, m, s, s0, gamma1**t, gamma2**t)
    return State(*vadam.update(powers, g, h, gamma1=gamma1, gamma2=gamma2, **rule_args)[:4], t + 1)
