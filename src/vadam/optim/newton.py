"""What VON and VOGN share: everything but where ĥ comes from."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, Unpack

from vadam import rules
from vadam.optim.base import VariationalOptimizer
from vadam.optim.common import Common
from vadam.optim.rule_optimizer import Group


class NewtonOptimizer(VariationalOptimizer):
    """The arguments of VON and VOGN, and the choice of their rule."""

    rule = rules.von

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        beta: float = 0.999,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | None = None,
        momentum: float = 0.0,
        damping: float = 0.0,
        tau: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        defaults = {
            "lr": lr,
            "beta": beta,
            "num_data": num_data,
            "prior_precision": prior_precision,
            "init_precision": init_precision,
            "momentum": momentum,
            "damping": damping,
            "tau": tau,
        }
        super().__init__(params, defaults, **common)

    def rule_of(self, group: Group) -> ModuleType:
        """Return the rule with natural momentum if there is any."""
        return rules.natural_momentum if group["momentum"] else self.rule
