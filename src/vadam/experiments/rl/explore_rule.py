"""Explore, the paper's naive baseline (App. K): mean and variance are optimised apart, each by SGD or Adam.

    θ = μ + σ∘ε,  ĝ the gradient at θ
    ∇_σ² = ĝ∘ε / (2σ)          on the variance, as the text says
    ∇_p  = −ĝ∘ε σ³ / 2         on the precision p = 1/σ², as the authors' program does
    μ ← step along ĝ,  σ² or p ← step along its gradient

ĥ is the reparameterised curvature ĝ∘ε/σ, so ĝ∘ε = ĥσ. A step is SGD's, or Adam's with its bias correction.
Nothing in the objective keeps σ² or p positive: they are kept from falling below ``FLOOR``.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vadam.rules.von import Scalar

FLOOR = 1e-8
"""Of what is stepped on, the variance or the precision."""


class State(NamedTuple):
    mu: Tensor
    v: Tensor
    m_mu: Tensor
    s_mu: Tensor
    m_v: Tensor
    s_v: Tensor
    t: Scalar


def init(mu: Tensor, *, init_precision: Scalar, on_precision: bool) -> State:
    v = torch.zeros_like(mu) + (init_precision if on_precision else 1 / init_precision)
    zero = torch.zeros_like(mu)
    return State(mu, v, zero, zero.clone(), zero.clone(), zero.clone(), 0.0)


def precision(state: State, *, on_precision: bool) -> Tensor:
    return state.v if on_precision else 1 / state.v


def update(
    state: State,
    g: Tensor,
    h: Tensor,
    *,
    alpha: Scalar,
    alpha_v: Scalar,
    on_precision: bool,
    adam: bool,
    gamma1: Scalar = 0.9,
    gamma2: Scalar = 0.999,
    eps: Scalar = 1e-8,
) -> State:
    mu, v, m_mu, s_mu, m_v, s_v, t = state
    t = t + 1
    g_v = -h * v**-2 / 2 if on_precision else h / 2
    if adam:
        m_mu, s_mu = gamma1 * m_mu + (1 - gamma1) * g, gamma2 * s_mu + (1 - gamma2) * g**2
        m_v, s_v = gamma1 * m_v + (1 - gamma1) * g_v, gamma2 * s_v + (1 - gamma2) * g_v**2
        g = (m_mu / (1 - gamma1**t)) / ((s_mu / (1 - gamma2**t)).sqrt() + eps)
        g_v = (m_v / (1 - gamma1**t)) / ((s_v / (1 - gamma2**t)).sqrt() + eps)
    return State(mu - alpha * g, (v - alpha_v * g_v).clamp(min=FLOOR), m_mu, s_mu, m_v, s_v, t)
