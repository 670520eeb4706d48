"""SGD-Explore and Adam-Explore as optimizers of the family."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam.optim import checks
from vadam.optim.common import Common
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.ruled import Group, Letters
from vadam_paper.experiments.rl.explore_rule import rule


class Explore(Reparameterised):
    """θ ~ N(μ, v) or N(μ, 1/v): separate steps on μ, with ``lr``, and on v, with ``lr_v`` (see ``explore_rule``)."""

    trains_points = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        lr_v: float = 1e-2,
        *,
        init_precision: float = 1e4,
        on_precision: bool,
        adam: bool,
        **common: Unpack[Common],
    ) -> None:
        defaults = {
            "lr": lr, "lr_v": lr_v, "init_precision": init_precision, "on_precision": on_precision, "adam": adam,
            "num_data": 1, "prior_precision": 1e-8,
        }  # fmt: skip
        super().__init__(params, defaults, **common)

    def _check(self, group: Group) -> None:
        checks.learning_rate(group)
        checks.number("lr_v", group["lr_v"], low=0, closed="[", fix="the step size of the variance is at least 0")
        checks.number("init_precision", group["init_precision"], low=0, fix="q starts with this precision: above 0")

    def _letters(self, group: Group) -> Letters:
        which = rule(adam=group["adam"], on_precision=group["on_precision"])
        return Letters(which, {}, {}, {"alpha": group["lr"], "alpha_v": group["lr_v"]})
