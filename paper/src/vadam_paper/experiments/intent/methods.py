"""The methods and the ranges of their settings, for a linear layer on embeddings with a mean square of 1."""

from collections.abc import Callable

import torch

from vadam import optim
from vadam_paper.experiments import halton
from vadam_paper.experiments.halton import Range, Settings
from vadam_paper.experiments.optimizer_setup import Setup, adamw

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


def _vadam(given: Setup) -> torch.optim.Optimizer:
    start = given.precision_at(START)
    return given.make(optim.Vadam, betas=BETAS, init_precision=start, batch_size=given.batch_size)


def _vadam_paper(given: Setup) -> torch.optim.Optimizer:
    return given.make(optim.Vadam, betas=BETAS, init_precision=given.precision_at(START))


def _ivon(given: Setup) -> torch.optim.Optimizer:
    return given.make(optim.IVON, betas=IVON_BETAS, hess_init=HESS_INIT)


def _vogn(given: Setup) -> torch.optim.Optimizer:
    start = given.precision_at(START)
    return given.make(optim.VOGN, beta=BETAS[1], momentum=BETAS[0], damping=1e-4, init_precision=start)


MAKE: dict[str, Callable[[Setup], torch.optim.Optimizer]] = {
    "adamw": adamw,
    "vadam": _vadam,
    "vadam-paper": _vadam_paper,
    "ivon": _ivon,
    "vogn": _vogn,
}
