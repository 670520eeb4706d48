"""Variational Online Newton (paper §3.1, App. D; with ``tau`` §5).

    θ ~ N(μ, σ²),  σ⁻² = N (s + τλ̃)
    s₊ = (1 − τβ) s + β ĥ
    μ₊ = μ − α (ĝ + τλ̃ (μ − μ₀)) / max(s₊ + τλ̃, p₊/ξ)

ĥ is the diagonal of the Hessian or an estimate of it. It may be negative: ``feasible_beta`` is App. D.1's back-tracking.
``damping`` is added to the denominator. p₊ = max((1 − β) p, |ĝ|∞) is the largest gradient of the last 1/β steps (``new_peak``), one number
for all weights, so that ĝ moves no weight by more than αξ. The paper has ξ = ∞.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rules import arguments
from vadam.rules.arguments import (
    BETA,
    DAMPING,
    DATA_AND_PRIOR,
    EXACT_MOMENTUM,
    LR,
    MOMENTUM,
    NEWTON_INIT_PRECISION,
    TAU,
    Argument,
)
from vadam.rules.binding import Curvature

Scalar = float | Tensor
NUMBERS = (float, int)  # a tuple: torch 2.6 cannot compile isinstance with a union
TINY = 1e-19
"""Smallest denominator, the root of the smallest float32: below it, where a gradient has always been zero, there is no step."""

CURVATURE = Curvature.HESSIAN
MOMENTUM_RULES = {False: "natural_momentum", True: "exact_momentum"}
STEP_BOUND = Argument(
    "step_bound",
    1.0,
    "(0, inf]",
    "Bound ξ of what the gradient moves a weight, before the rate: the denominator is at least the largest recent gradient / ξ. "
    "inf is the paper's step.",
)
ARGUMENTS_OF_VOGN = (
    LR._replace(default=0.1),
    BETA,
    *DATA_AND_PRIOR,
    NEWTON_INIT_PRECISION,
    MOMENTUM,
    EXACT_MOMENTUM,
    DAMPING,
    TAU,
)
ARGUMENTS = (*ARGUMENTS_OF_VOGN, STEP_BOUND)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    return {
        **arguments.data_args(values),
        "alpha": values["lr"],
        "beta": 1 - values["beta"],
        "gamma": values["momentum"],
        "damping": values["damping"],
        "tau": values["tau"],
        "peak": 0.0,
        "xi": values.get("step_bound", math.inf),
    }


def ratio(x: Tensor, scale: Tensor, constant: Scalar, floor: Scalar = 0.0) -> Tensor:
    """Return x / max(scale + constant, floor), and 0 where the denominator is 0, even if a momentum x is not."""
    d = scale + constant if is_zero(floor) else (scale + constant).clamp(min=floor)
    if isinstance(constant, NUMBERS) and constant >= TINY:
        return x / d
    return x * (d / TINY).clamp(max=1.0) / d.clamp(min=TINY)


def pull(mu: Tensor, mu0: Scalar, strength: Scalar) -> Tensor:
    """Return strength · (μ − μ₀), the gradient of the prior; a mean of zero costs nothing."""
    return strength * (mu if is_zero(mu0) else mu - mu0)


def is_zero(x: Scalar) -> bool:
    """Return True for the number zero, without reading a tensor."""
    return isinstance(x, NUMBERS) and x == 0


class State(NamedTuple):
    mu: Tensor
    s: Tensor


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar) -> State:
    return State(mu, torch.zeros_like(mu) + (init_precision - lam) / N)


def precision(state: State, *, N: Scalar, lam: Scalar, tau: Scalar = 1.0) -> Tensor:
    return N * state.s + tau * lam


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
    damping: Scalar = 0.0,
    peak: Scalar = 0.0,
    xi: Scalar = math.inf,
) -> State:
    mu, s = state
    s = (1 - tau * beta) * s + beta * h
    mu = mu - alpha * ratio(g + pull(mu, mu0, tau * lam / N), s, tau * lam / N + damping, peak / xi)
    return State(mu, s)


def new_peak(peak: Tensor, largest: Tensor, *, beta: Scalar) -> Tensor:
    """Return p₊ = max((1 − β) p, |ĝ|∞): the largest gradient so far, which fades as s does."""
    return torch.maximum((1 - beta) * peak, largest)


def feasible_beta(
    s: Tensor, h: Tensor, *, beta: Scalar, N: Scalar, lam: Scalar, tau: Scalar = 1.0, delta: float = 0.5
) -> Tensor:
    """Return App. D.1's β: the largest up to ``beta`` that keeps every element of s₊ + τλ̃ positive, with a margin 0 < δ < 1.

    s₊ + τλ̃ = (s + τλ̃) + β (ĥ − τs), so only elements with ĥ < τs bound β, and each bounds it by (s + τλ̃) / (τs − ĥ). The
    paper asks for s₊ > 0, which no β can give from s = 0; what the variance needs is s₊ + τλ̃ > 0.
    """
    descent = tau * s - h
    room = s + tau * lam / N
    bound = torch.where((descent > 0) & (beta * descent >= room), delta * room / descent, torch.full_like(s, torch.inf))
    return torch.clamp(bound.min(), max=beta) if bound.numel() else torch.as_tensor(beta, dtype=s.dtype)
