"""VadaGrad: variational optimisation by weight perturbation in AdaGrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.base import VariationalOptimizer
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.signature import group_arguments


class VadaGrad(VariationalOptimizer):
    r"""Variational AdaGrad (paper §5, App. F): explores, and ends in a minimum. There is no prior, and the variance never grows.

    Input: α (``lr``), β (``beta``, the weight of the new), s₁ (``init_precision``), N (``num_data``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s)
        ĝ ← gradient of the objective at θ
        s ← s + β ĝ∘ĝ
        μ ← μ − α ĝ/√s

    The paper minimises the objective itself, so N is 1 unless it is given. The other arguments are those of
    :class:`vadam.Vadam`.
    """

    rule = rules.vadagrad
    supports_deterministic = True

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta: float = 1.0,
        *,
        init_precision: float,
        num_data: float = 1,
        **common: Unpack[CommonArguments],
    ) -> None: ...
