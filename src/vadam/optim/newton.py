"""What VON and VOGN share: everything but where ĥ comes from."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, ClassVar, Unpack

from vadam import rules
from vadam.optim import checks
from vadam.optim.base import Group, VariationalOptimizer
from vadam.optim.common import Common
from vadam.optim.ruled import Letters


class NewtonOptimizer(VariationalOptimizer):
    """The arguments of VON and VOGN, and their rule: with natural momentum if there is any."""

    rule: ClassVar[ModuleType] = rules.von

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
        augmentation: float = 1.0,
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
            "augmentation": augmentation,
            "tau": tau,
        }
        super().__init__(params, defaults, **common)

    def _check(self, group: Group) -> None:
        checks.learning_rate(group)
        checks.beta(group)
        checks.num_data(group)
        checks.prior(group)
        checks.tau(group)
        checks.init_precision(group)
        checks.number(
            "momentum", group["momentum"], low=0, high=1, closed="[", fix="natural momentum goes from 0 to below 1"
        )
        checks.number(
            "damping", group["damping"], low=0, closed="[", fix="it is added to the step's denominator: at least 0"
        )
        checks.number(
            "augmentation", group["augmentation"], low=0, fix="the factor of effective data is above 0, e.g. 1.0"
        )

    def _letters(self, group: Group) -> Letters:
        scale = {"N": group["num_data"] * group["augmentation"], "lam": group["prior_precision"]}
        tempered = {**scale, "tau": group["tau"]}
        rates = {"alpha": group["lr"], "beta": 1 - group["beta"], "damping": group["damping"]}
        if group["momentum"]:
            return Letters(rules.natural_momentum, scale, tempered, {**rates, "gamma": group["momentum"]})
        return Letters(self.rule, scale, tempered, rates)
