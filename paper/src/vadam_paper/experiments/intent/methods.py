"""The methods and the ranges of their settings, for a linear layer on embeddings with a mean square of 1."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from vadam import optim
from vadam_paper.experiments import halton
from vadam_paper.experiments.halton import Range

Settings = dict[str, float]
RATE: Range = (1e-3, 3e-2)
PRIOR: Range = (0.1, 100.0)
WEIGHT: Range = (3.0, 1000.0)
SPACES: dict[str, dict[str, Range]] = {
    "adamw": {"lr": RATE, "weight_decay": (1e-2, 3.0)},
    "vadam": {"lr": RATE, "prior_precision": PRIOR, "data_weight": WEIGHT},
    "vadam-paper": {"lr": RATE, "prior_precision": PRIOR},
    "ivon": {"lr": (0.3, 5.0), "prior_precision": (0.03, 10.0), "data_weight": (3.0, 300.0)},
    "vogn": {"lr": (3e-4, 1e-2), "prior_precision": (1.0, 100.0), "data_weight": (1.0, 30.0)},
}
"""Ranges of the second search; README.md has those of the first and why they were left."""
SETTINGS_FROM = {"adamw-scaled": "adamw"}
BETAS = (0.9, 0.99)
START = 0.1
IVON_BETAS = (0.9, 0.998)
HESS_INIT = 0.05


def settings(method: str, trial: int) -> Settings:
    """Return the settings of a trial."""
    return halton.settings(SPACES[method], trial)


class Setup(NamedTuple):
    """Holds the data and sizes that an optimizer is built from."""

    model: nn.Module
    settings: Settings
    N: int
    batch_size: int
    noise: torch.Generator

    def of_data(self, start: float | None = None) -> dict[str, Any]:
        lam, weight = self.settings["prior_precision"], self.settings.get("data_weight", 1.0)
        found = {"num_data": self.N, "prior_precision": lam, "data_weight": weight, "generator": self.noise}
        return found if start is None else {**found, "init_precision": self.N * weight * start + lam}


def _adamw(given: Setup) -> torch.optim.Optimizer:
    decay = given.settings["weight_decay"]
    return torch.optim.AdamW(given.model.parameters(), given.settings["lr"], weight_decay=decay, fused=True)


def _vadam(given: Setup) -> torch.optim.Optimizer:
    M = given.batch_size
    return optim.Vadam(
        given.model.parameters(), given.settings["lr"], BETAS, batch_size=M, **given.of_data(START)
    )  # fmt: skip


def _vadam_paper(given: Setup) -> torch.optim.Optimizer:
    return optim.Vadam(given.model.parameters(), given.settings["lr"], BETAS, **given.of_data(START))


def _ivon(given: Setup) -> torch.optim.Optimizer:
    how: dict[str, Any] = {"betas": IVON_BETAS, "hess_init": HESS_INIT}
    return optim.IVON(given.model.parameters(), given.settings["lr"], **how, **given.of_data())


def _vogn(given: Setup) -> torch.optim.Optimizer:
    how: dict[str, Any] = {"beta": BETAS[1], "momentum": BETAS[0], "damping": 1e-4}
    return optim.VOGN(given.model.parameters(), given.settings["lr"], **how, **given.of_data(START))


MAKE: dict[str, Callable[[Setup], torch.optim.Optimizer]] = {
    "adamw": _adamw,
    "vadam": _vadam,
    "vadam-paper": _vadam_paper,
    "ivon": _ivon,
    "vogn": _vogn,
}
