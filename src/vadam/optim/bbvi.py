"""BBVI: black-box variational inference with the reparameterisation trick and Adam, the paper's baseline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.signature import group_arguments


class BBVI(Reparameterised):
    r"""Black-box variational inference (paper §2): Adam on the mean μ and on ρ, where σ = log(1 + e^ρ).

    Input: α (``lr``), γ₁, γ₂ (``betas``), δ (``eps``), N (``num_data``), λ (``prior_precision``)

    .. code-block:: text

        θ ← μ + σ∘ε
        ĝ ← minibatch gradient of f at θ
        μ ← Adam step along ĝ + λ/N μ
        ρ ← Adam step along (ĝ∘ε + (λσ − 1/σ)/N) / (1 + e^−ρ)

    It needs no stochastic layers: the gradient with respect to σ is ĝ∘ε. The state is five vectors. ``init_precision`` may be below
    the prior's. The other arguments are those of :class:`vadam.Vadam`.
    """

    rule = rules.bbvi

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | str | None = None,
        **common: Unpack[CommonArguments],
    ) -> None: ...
