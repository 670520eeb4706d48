"""SGD-Explore and Adam-Explore as variational optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam.optim.common_arguments import CommonArguments
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.rule_optimizer import Group
from vadam_paper.experiments.rl.explore_rule import SGDExplore, rule


class Explore(Reparameterised):
    """Optimise θ ~ N(μ, v) or N(μ, 1/v) by separate steps on μ (``lr``) and v (``lr_v``); see ``explore_rule``."""

    rule: Any = SGDExplore(on_precision=True)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        lr_v: float = 1e-2,
        *,
        init_precision: float = 1e4,
        on_precision: bool,
        adam: bool,
        **common: Unpack[CommonArguments],
    ) -> None:
        defaults = {
            "lr": lr, "lr_v": lr_v, "init_precision": init_precision, "on_precision": on_precision, "adam": adam,
            "num_data": 1, "prior_precision": 1e-8,
        }  # fmt: skip
        super().__init__(params, defaults, **common)

    def rule_of(self, group: Group) -> Any:
        """Return one of the four rules."""
        return rule(adam=group["adam"], on_precision=group["on_precision"])
