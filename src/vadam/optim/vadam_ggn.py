"""VadamGGN: Adam's steps with the variances of per-example gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.per_example import PerExampleOptimizer
from vadam.optim.signature import group_arguments


class VadamGGN(PerExampleOptimizer):
    r"""Vadam with VOGN's curvature: ĥ is the mean of squared per-example gradients, the generalised Gauss-Newton diagonal.

    Input: α (``lr``), γ₁, γ₂ (``betas``), N (``num_data``), λ (``prior_precision``), M (``batch_size``), τ (``tau``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s/w + τλ)                w = (1/M)(N − M)/(N − 1)
        ĝ ← mean over the minibatch of ∇f_i(θ),  ĥ ← mean of (∇f_i(θ))²
        m ← γ₁ m + (1 − γ₁)(ĝ + τλ/N μ)
        s ← (1 − τ(1 − γ₂)) s + (1 − γ₂) w ĥ
        μ ← μ − α m̂/(√ŝ + τλ/N)                          bias-corrected as in Vadam

    It pays VOGN's price and keeps Adam's rates: with ``batch_size`` the steps are as long as Adam's, whatever the size of the
    minibatch; without it they are shorter by the root of that size. Its precision needs no assumption about the mean gradient, as
    that of Vadam with ``batch_size`` does. Call ``opt.attach(model)`` once, as for :class:`vadam.VOGN`. The arguments are those of
    :class:`vadam.Vadam`.
    """

    rule = rules.vadam_ggn

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | str | None = None,
        start_in_step: bool = False,
        batch_size: int | None = None,
        tau: float = 1.0,
        sampling_precision: float = 0.0,
        **common: Unpack[CommonArguments],
    ) -> None: ...
