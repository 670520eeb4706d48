"""The six methods of App. K with the settings of its Table 3."""

from typing import Any, NamedTuple

import torch

from vadam.integrations.sb3 import TABLE_3
from vadam.optim import VadaGrad, Vadam
from vadam_paper.experiments.rl.config import Config
from vadam_paper.experiments.rl.explore import Explore


class Method(NamedTuple):
    """An optimizer with its arguments and its kind of exploration."""

    optimizer: type[torch.optim.Optimizer]
    arguments: dict[str, Any]
    sample_every: str | None = None
    """Overrides the configuration's value if given."""
    action_noise: float = 0.0
    noise_pull: float = 0.0
    """θ of an Ornstein–Uhlenbeck process, which is correlated in time; 0 for independent noise at every step."""


def table_3(config: Config) -> dict[str, Method]:
    """Return the methods of Table 3.

    The Explore methods step along the variance (text) or the precision (authors' program).
    """
    explore = {"lr": 1e-4, "lr_v": 1e-2, "init_precision": 1e4, "on_precision": config.explore_on == "precision"}
    return {
        "vadam": Method(Vadam, TABLE_3),
        "adam-plain": Method(torch.optim.Adam, {"lr": 1e-4, "fused": True}),
        "sgd-plain": Method(torch.optim.SGD, {"lr": 1e-4}),
        "vadagrad": Method(VadaGrad, {"lr": 1e-2, "beta": 1 - 0.99, "init_precision": 1e4}),
        "adam-explore": Method(Explore, {**explore, "adam": True}),
        "sgd-explore": Method(Explore, {**explore, "adam": False}),
    }
