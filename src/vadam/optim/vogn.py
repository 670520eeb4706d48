"""VOGN: variational online Gauss-Newton, from per-example gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.per_example import PerExampleOptimizer
from vadam.optim.signature import group_arguments


class VOGN(PerExampleOptimizer):
    r"""Variational Online Gauss-Newton (paper §3.2), with natural momentum (§4) if asked for.

    Input: α (``lr``), 1 − β (``beta``, the decay rate), γ̄ (``momentum``), N (``num_data`` × ``data_weight``),
    λ (``prior_precision``), τ (``tau``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + τλ)
        ĝ ← mean over the minibatch of ∇f_i(θ),  ĥ ← mean of (∇f_i(θ))²
        s₊ ← (1 − τβ) s + β ĥ
        μ ← μ − α (ĝ + τλ/N μ)/(s₊ + τλ/N) + γ̄ (s + τλ/N)/(s₊ + τλ/N) ∘ (μ − μ₋)

    Call ``opt.attach(model)`` once: its hooks record the squares during an ordinary backward pass of an ordinary mean loss. Then
    all three ways of use work as for :class:`vadam.Vadam`, whose arguments not listed here are also these. ``damping`` is added to
    the denominator of the step. ``exact_momentum`` carries the changes of mean and precision over without the paper's
    approximation Σₜ₋₁ ≈ Σₜ (App. E.3), for one more vector. With data augmentation the examples are worth more than their number:
    ``data_weight`` ρ makes the effective number of data ρN. Several backward passes in one sample count as micro-batches, their
    losses divided by their number.
    """

    rule = rules.vogn

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-1,
        beta: float = 0.999,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | str | None = None,
        momentum: float = 0.0,
        exact_momentum: bool = False,
        damping: float = 0.0,
        tau: float = 1.0,
        **common: Unpack[CommonArguments],
    ) -> None: ...
