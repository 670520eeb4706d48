"""Schedules for the learning rate (with torch's ``LambdaLR``) and for any other argument of a group (``Anneal``).

>>> import torch, vadam
>>> w = torch.nn.Parameter(torch.zeros(3))
>>> opt = vadam.Vadam([w], lr=0.1, num_data=100)
>>> rate = torch.optim.lr_scheduler.LambdaLR(opt, vadam.schedules.decay(0.55))
>>> tau = vadam.schedules.Anneal(opt, "tau", vadam.schedules.linear(1.0, 0.0, steps=1000))     # from inference to optimisation
>>> opt.param_groups[0]["tau"]
1.0
>>> tau.step()
>>> opt.param_groups[0]["tau"]
0.999
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

Schedule = Callable[[int], float]


def decay(power: float) -> Schedule:
    """Return the paper's factor 1/(1 + tᵖ) of the learning rate (App. I, where p = 0.55)."""
    return lambda t: 1 / (1 + t**power)


def linear(start: float, end: float, *, steps: int) -> Schedule:
    """Return a schedule from ``start`` to ``end`` in ``steps`` steps, then constant: to anneal τ or to warm up the prior."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps!r}")
    return lambda t: start + (end - start) * min(t, steps) / steps


class Anneal:
    """Set the argument ``name`` of every parameter group to ``schedule(t)``; call ``step()`` after the optimizer's."""

    def __init__(self, optimizer: Optimizer, name: str, schedule: Schedule) -> None:
        for group in optimizer.param_groups:
            if name not in group:
                raise ValueError(
                    f"{type(optimizer).__name__} has no argument {name!r}: choose one of {sorted(set(group) - {'params'})}"
                )
            if problem := _contradiction(name, group):
                raise ValueError(problem)
        self.optimizer, self.name, self.schedule, self.t = optimizer, name, schedule, 0
        self._set()

    def step(self) -> None:
        self.t += 1
        self._set()

    def state_dict(self) -> dict[str, Any]:
        return {"t": self.t}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.t = state["t"]
        self._set()

    def _set(self) -> None:
        for group in self.optimizer.param_groups:
            group[self.name] = self.schedule(self.t)


def _contradiction(name: str, group: dict[str, Any]) -> str:
    """Return why a schedule of this argument would do nothing, or undo another argument; empty if it works."""
    if name == "prior_precision" and group.get("prior") == "posterior":
        return (
            "prior_precision has no effect in a group whose prior is a posterior, which has a precision for every weight: anneal "
            "data_weight, or give a wider prior by prior=post.tempered(...)"
        )
    if name == "prior_precision" and (every := group.get("learn_prior_every")):
        return f"learn_prior_every={every!r} sets prior_precision too, which the schedule would undo: leave one out"
    if name == "prior" and isinstance(group.get("prior"), str):
        return (
            "a schedule of numbers would replace the prior's mean of every weight: give the optimizer a number as prior"
        )
    if name == "init_precision":
        return "init_precision has no effect after the first step: anneal sampling_precision or temperature"
    return ""
