"""The methods: how each trains a network, and the settings that it tries."""

import math
from collections.abc import Callable

import torch

from vadam import optim
from vadam_paper.experiments import halton
from vadam_paper.experiments.halton import Range, Settings
from vadam_paper.experiments.optimizer_setup import Setup, adamw
from vadam_paper.experiments.vision.config import FIRST, POOLS, Config

RATE: Range = (3e-4, 1e-2)
DECAY: Range = (1e-3, 3.0)
PRIOR: Range = (3.0, 300.0)
WEIGHT: Range = (10.0, 1000.0)
IVON_RATE: Range = (0.1, 1.2)
SGD_RATE: Range = (0.01, 0.3)
SGD_DECAY: Range = (1e-5, 1e-3)
SPACES: dict[str, dict[str, Range]] = {
    "adamw": {"lr": RATE, "weight_decay": DECAY},
    "vadam": {"lr": (1e-3, 1e-2), "prior_precision": PRIOR, "data_weight": WEIGHT},
    "vadam-paper": {"lr": (1e-3, 1e-2), "prior_precision": (1.0, 1000.0)},
    "ivon": {"lr": IVON_RATE, "prior_precision": (1.0, 100.0), "data_weight": (1.0, 30.0)},
    "evon": {"lr": IVON_RATE, "prior_precision": (1.0, 100.0), "data_weight": (1.0, 30.0)},
    "vogn": {"lr": (3e-4, 3e-2), "prior_precision": PRIOR, "data_weight": WEIGHT},
    "mc-dropout": {"lr": RATE, "weight_decay": DECAY, "rate": (0.05, 0.5)},
    "laplace": {"prior_precision": (1.0, 1e4)},
    "sgd": {"lr": SGD_RATE, "weight_decay": SGD_DECAY},
    "swag": {"lr": SGD_RATE, "weight_decay": SGD_DECAY, "constant": (0.03, 0.3)},
}
"""Ranges of the settings, all on a logarithmic scale. ``constant`` is SWAG's last rate as a fraction of the first."""

SETTINGS_FROM = {"adamw-scaled": "adamw", "laplace": "adamw", "deep-ensemble": "adamw", "ivon-opt": "ivon"}
"""Methods that take the trained networks or the settings of another one."""
MIXED = ("vadam", "ivon")
"""Methods at about AdamW's price, among which the mixture takes the best, by its validation loss."""
OF_THE_LIBRARY = {"evon": "EVON"}
"""Methods that run only with a version of vadam that has their optimizer."""

BETAS = (0.9, 0.99)
START = 0.1
"""Start of s for Vadam and VOGN: after three epochs 0.3 % of it is left."""
HESS_INIT = 0.5
IVON_BETAS = (0.9, 0.9995)


def available(methods: tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods that this version of the library has."""
    return tuple(m for m in methods if m not in OF_THE_LIBRARY or hasattr(optim, OF_THE_LIBRARY[m]))


def tuned(methods: tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods with their own settings that need one training each."""
    return tuple(m for m in available(methods) if m in SPACES and m != "laplace")


def trained(methods: tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods that train a network of their own."""
    return tuple(m for m in available(methods) if m in MAKE or m == "ivon-opt")


def order(methods: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the methods in three groups: those that run first, those that take their networks together, the others."""
    found = available(methods)
    return (
        tuple(m for m in FIRST if m in found),
        tuple(m for m in POOLS if m in found),
        tuple(m for m in found if m not in (*FIRST, *POOLS)),
    )


def settings(method: str, trial: int) -> Settings:
    """Return the settings of a trial."""
    return halton.settings(SPACES[method], trial)


def _sgd(given: Setup) -> torch.optim.Optimizer:
    lr, decay = given.settings["lr"], given.settings["weight_decay"]
    return torch.optim.SGD(given.params, lr, 0.9, weight_decay=decay, fused=True)


def _vadam(given: Setup) -> torch.optim.Optimizer:
    start = given.precision_at(START)
    return given.make(optim.Vadam, betas=BETAS, init_precision=start, batch_size=given.batch_size)


def _vadam_paper(given: Setup) -> torch.optim.Optimizer:
    return given.make(optim.Vadam, betas=BETAS, init_precision=given.precision_at(START))


def _vogn(given: Setup) -> torch.optim.Optimizer:
    start = given.precision_at(START)
    return given.make(optim.VOGN, beta=BETAS[1], momentum=BETAS[0], damping=1e-3, init_precision=start)


def _ivon(given: Setup) -> torch.optim.Optimizer:
    return given.make(optim.IVON, betas=IVON_BETAS, hess_init=HESS_INIT, clip_radius=math.inf)


def _evon(given: Setup) -> torch.optim.Optimizer:
    return given.make(optim.EVON, betas=IVON_BETAS, hess_init=HESS_INIT)


MAKE: dict[str, Callable[[Setup], torch.optim.Optimizer]] = {
    "adamw": adamw,
    "mc-dropout": adamw,
    "sgd": _sgd,
    "swag": _sgd,
    "vadam": _vadam,
    "vadam-paper": _vadam_paper,
    "vogn": _vogn,
    "ivon": _ivon,
    "evon": _evon,
}


def steps_an_epoch(config: Config) -> int:
    return -(-config.train_images // config.batch_size)
