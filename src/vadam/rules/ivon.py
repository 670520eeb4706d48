"""Improved Variational Online Newton (Shen et al. 2024): the successor of VON and Vadam.

    θ ~ N(μ, σ²),  σ⁻² = N (s + λ̃)
    m ← β₁ m + (1 − β₁) ĝ
    s₊ = β₂ s + (1 − β₂) ĥ + ½ (1 − β₂)² (s − ĥ)² / (s + λ̃)
    μ ← μ − α clip((m/(1 − β₁ᵗ) + λ̃ (μ − μ₀)) / (s₊ + λ̃), ±ξ)

ĥ is Price's estimate ĝ∘ε/σ. The last term of s₊ is the Riemannian correction: it keeps s₊ + λ̃ positive whatever ĥ is. The
number s₀ ← β₂ s₀ is the part of s that is still the start. IVON's own names: s is ``hess``, λ̃ is ``weight_decay``, N is ``ess``,
ξ is ``clip_radius``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import BETAS, DATA_AND_PRIOR, LR, Argument
from vadam.rules.binding import Curvature
from vadam.rules.von import Scalar, pull, ratio

CURVATURE = Curvature.REPARAMETERISED
ARGUMENTS = (
    LR._replace(default=0.1),
    BETAS._replace(default=(0.9, 0.99999)),
    *DATA_AND_PRIOR,
    Argument("hess_init", 1.0, "(0, inf)", "Start s₀ of the Hessian.", "e.g. hess_init=0.5"),
    Argument(
        "clip_radius", 0.01, "(0, inf]", "Bound ξ of the elements of a step before the rate; inf for no clipping."
    ),
    Argument("rescale_lr", True, "bool", "Multiply the rate by s₀ + λ/N, so that the first steps are those of SGD."),
)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    data, s0 = arguments.data_args(values), values["hess_init"]
    N, lam = data["N"], data["lam"]
    beta1, beta2 = values["betas"]
    alpha = values["lr"] * (s0 + lam / N) if values["rescale_lr"] else values["lr"]
    rates = {"alpha": alpha, "beta1": beta1, "beta2": beta2, "xi": values["clip_radius"]}
    return {**data, "init_precision": N * s0 + lam, **rates}


class State(NamedTuple):
    mu: Tensor
    m: Tensor
    s: Tensor
    s0: Scalar
    beta1_t: Scalar


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    s0 = (init_precision - lam) / N
    return State(mu, torch.zeros_like(mu), torch.zeros_like(mu) + s0, s0, 1.0)


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    return N * state.s + lam


def update(
    state: State,
    g: Tensor,
    h: Tensor,
    *,
    alpha: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    N: Scalar,
    lam: Scalar,
    mu0: Scalar = 0.0,
    xi: float = float("inf"),
) -> State:
    mu, m, s, s0, beta1_t = state
    s0, beta1_t = beta2 * s0, beta1 * beta1_t
    m = beta1 * m + (1 - beta1) * g
    s = beta2 * s + (1 - beta2) * h + 0.5 * (1 - beta2) ** 2 * ratio((s - h) ** 2, s, lam / N)
    step = ratio(m / (1 - beta1_t) + pull(mu, mu0, lam / N), s, lam / N)
    mu = mu - alpha * step.clamp(-xi, xi)
    return State(mu, m, s, s0, beta1_t)
