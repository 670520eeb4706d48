"""Vprop: variational inference by weight perturbation in RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.base import VariationalOptimizer
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.signature import group_arguments


class Vprop(VariationalOptimizer):
    r"""Variational RMSprop (paper §3.3): Vadam without bias correction, with natural momentum (App. E.4) if asked for.

    Input: α (``lr``), 1 − β (``beta``, the decay rate), γ̄ (``momentum``), N (``num_data``), λ (``prior_precision``),
    τ (``tau``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + τλ)
        ĝ ← minibatch gradient of f at θ
        s₊ ← (1 − τβ) s + β ĝ∘ĝ
        μ ← μ − α (ĝ + τλ/N μ)/(√s₊ + τλ/N) + γ̄ (√s + τλ/N)/(√s₊ + τλ/N) ∘ (μ − μ₋)

    The other arguments are those of :class:`vadam.Vadam`.
    """

    rule = rules.vprop
    supports_deterministic = True

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        beta: float = 0.999,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | str | None = None,
        start_in_step: bool = False,
        momentum: float = 0.0,
        batch_size: int | None = None,
        tau: float = 1.0,
        **common: Unpack[CommonArguments],
    ) -> None: ...
