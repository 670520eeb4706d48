"""Run one cell for each method and trial; it also records how often the car reached the top while learning."""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.mountain_car.config import Config
from vadam_paper.experiments.rl.cells import cells, trained

__all__ = ["cells", "run_cell"]

AT_THE_TOP = 50.0
"""Reward threshold of an arrival: it is rewarded with 100, minus a cost for the force."""


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    trial = trained(config, key, context, methods)
    arrivals = (trial.remembered("rewards") > AT_THE_TOP).flatten().nonzero()[0]
    first = int(arrivals[0]) + 1 if len(arrivals) else None
    return trial.curve.summary() | {"arrivals": len(arrivals), "first_arrival": first}


def methods(config: Config) -> dict[str, Any]:
    import torch

    from vadam.integrations.sb3 import TABLE_3
    from vadam.optim import Vadam
    from vadam_paper.experiments.rl.methods import Method

    adam = {"lr": config.actor_lr, "fused": True}
    noisy = TABLE_3 | {"lr": config.actor_lr, "sampling_precision": config.sampling_precision}
    return {
        "vadam-episode": Method(Vadam, noisy, sample_every="episode"),
        "vadam-step": Method(Vadam, noisy, sample_every="step"),
        "adam-action-noise": Method(torch.optim.Adam, adam, action_noise=config.action_noise),
        "adam-correlated-noise": Method(
            torch.optim.Adam,
            adam,
            action_noise=config.correlated_noise[0],
            noise_pull=config.correlated_noise[1],
        ),
        "adam-plain": Method(torch.optim.Adam, adam),
    }
