"""OnlineMagnitude: the online Newton step with the squared gradient as curvature."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.base import VariationalOptimizer
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.signature import group_arguments


class OnlineMagnitude(VariationalOptimizer):
    r"""Online Newton with the squared gradient as curvature (paper App. H).

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + λ)
        ĝ ← minibatch gradient of f at θ
        s ← (1 − β) s + β ĝ∘ĝ
        μ ← μ − α (ĝ + λ/N μ)/(s + λ/N)

    The arguments are those of :class:`vadam.Vprop`.
    """

    rule = rules.online_magnitude
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
        **common: Unpack[CommonArguments],
    ) -> None: ...
