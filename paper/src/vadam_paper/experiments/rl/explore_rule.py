"""Explore, the paper's naive baseline (App. K): mean and variance are optimised separately, each by SGD or Adam.

    θ = μ + σ∘ε,  ĝ the gradient at θ
    ∇_σ² = ĝ∘ε / (2σ)          on the variance, as the text says
    ∇_p  = −ĝ∘ε σ³ / 2         on the precision p = 1/σ², as the authors' program does
    μ ← step along ĝ,  v ← step along ∇_v,  v = σ² or p

ĥ is the reparameterised curvature ĝ∘ε/σ, so ĝ∘ε = ĥσ. A step along g is SGD's, x ← x − α g, or Adam's:

    m ← γ₁ m + (1 − γ₁) g,  s ← γ₂ s + (1 − γ₂) g∘g
    x ← x − α m/(1 − γ₁ᵗ) / (√(s/(1 − γ₂ᵗ)) + δ)

Nothing in the objective keeps σ² or p positive, so they are clamped at ``FLOOR``.

A rule is one of the four choices: a loop over the weights has no branches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from vadam.rules.arguments import LR, Argument
from vadam.rules.von import Scalar

FLOOR = 1e-8
"""Lower bound of v."""
GAMMA1, GAMMA2, DELTA = 0.9, 0.999, 1e-8
"""Adam's defaults."""

ARGUMENTS = (
    LR,
    Argument("lr_v", 1e-2, "[0, inf)", "Learning rate of v."),
    Argument("init_precision", 1e4, "(0, inf)", "Precision of the posterior at the start."),
)


class SGDState(NamedTuple):
    mu: Tensor
    v: Tensor


class AdamState(NamedTuple):
    mu: Tensor
    v: Tensor
    m_mu: Tensor
    s_mu: Tensor
    m_v: Tensor
    s_v: Tensor
    gamma1_t: Scalar
    gamma2_t: Scalar


@dataclass(frozen=True)
class _Explore:
    on_precision: bool
    ARGUMENTS: ClassVar = ARGUMENTS

    @staticmethod
    def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments under the names of the equations."""
        return {
            "alpha": values["lr"],
            "alpha_v": values["lr_v"],
            "init_precision": values["init_precision"],
        }

    def precision(self, state: SGDState | AdamState) -> Tensor:
        return state.v if self.on_precision else 1 / state.v

    def _start(self, mu: Tensor, init_precision: Scalar) -> Tensor:
        return torch.zeros_like(mu) + (init_precision if self.on_precision else 1 / init_precision)

    def _gradient(self, v: Tensor, h: Tensor) -> Tensor:
        return -h * v**-2 / 2 if self.on_precision else h / 2


class SGDExplore(_Explore):
    State = SGDState

    def init(self, mu: Tensor, *, init_precision: Scalar) -> SGDState:
        return SGDState(mu, self._start(mu, init_precision))

    def update(self, state: SGDState, g: Tensor, h: Tensor, *, alpha: Scalar, alpha_v: Scalar) -> SGDState:
        mu, v = state
        return SGDState(mu - alpha * g, (v - alpha_v * self._gradient(v, h)).clamp(min=FLOOR))


class AdamExplore(_Explore):
    State = AdamState

    def init(self, mu: Tensor, *, init_precision: Scalar) -> AdamState:
        m_mu, s_mu, m_v, s_v = (torch.zeros_like(mu) for _ in range(4))
        return AdamState(mu, self._start(mu, init_precision), m_mu, s_mu, m_v, s_v, 1.0, 1.0)

    def update(self, state: AdamState, g: Tensor, h: Tensor, *, alpha: Scalar, alpha_v: Scalar) -> AdamState:
        mu, v, m_mu, s_mu, m_v, s_v, gamma1_t, gamma2_t = state
        gamma1_t, gamma2_t = GAMMA1 * gamma1_t, GAMMA2 * gamma2_t

        def step(x: Tensor, m: Tensor, s: Tensor, g: Tensor, alpha: Scalar) -> tuple[Tensor, Tensor, Tensor]:
            m, s = GAMMA1 * m + (1 - GAMMA1) * g, GAMMA2 * s + (1 - GAMMA2) * g**2
            return x - alpha * (m / (1 - gamma1_t)) / ((s / (1 - gamma2_t)).sqrt() + DELTA), m, s

        mu, m_mu, s_mu = step(mu, m_mu, s_mu, g, alpha)
        v, m_v, s_v = step(v, m_v, s_v, self._gradient(v, h), alpha_v)
        return AdamState(mu, v.clamp(min=FLOOR), m_mu, s_mu, m_v, s_v, gamma1_t, gamma2_t)


@cache
def rule(*, adam: bool, on_precision: bool) -> Any:
    """Return one of the four rules, with the interface of a module of ``vadam.rules``.

    The same choices give the same object, so that an optimizer can compare rules by identity.
    """
    return AdamExplore(on_precision) if adam else SGDExplore(on_precision)
