"""Settings of Table 1 (paper App. J.1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig

SETS = ("yacht", "boston", "energy", "concrete", "wine", "kin8nm", "power", "naval")
"""Data sets in the order in which they run, the fast ones first."""
CONVERGED = "mc-dropout"
"""The method beside Vadam under *best*: trained as long, and searched as widely."""
CONVERGED_SPLITS_LARGE = 5
"""Splits of the four large sets for it, the first of the twenty."""
LARGE = SETS[4:]
"""Sets trained with minibatches of 128 and half the samples; the others use 32."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar = ("extra",)

    experiment: str = "uci"
    sets: tuple[str, ...] = SETS
    methods: tuple[str, ...] = ("vadam", "bbvi", "vogn", "vprop", "mc-dropout")
    extra: tuple[str, ...] = ()
    """Cells in addition to every method on every set."""
    splits: int = 20
    trials: int = 30
    """Points that Bayesian optimisation tries per split; the first ``startup`` are random."""
    startup: int = 5
    folds: int = 5
    epochs: int = 40
    hidden: int = 50
    lr: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    """Decay rates of the authors' program; the text swaps them."""
    evaluation_samples: int = 100
    first_weights: int | None = 123
    """Seed of the initial weights, the same for every network in the authors' program; None gives each its own."""
    objective: str = "joint_log_likelihood"
    """Objective of the search, a mean over the folds: the authors' joint log-likelihood, or the pointwise one."""


PROTOCOLS: dict[str, dict[str, Any]] = {
    "authors": {"extra": ("vadam-kin8nm.8", "bbvi-kin8nm.8"), "revision": 2},
    "text": {
        "extra": tuple(f"vadam-printed-{name}" for name in SETS),
        "objective": "log_likelihood",
        "first_weights": None,
        "methods": ("vadam", "bbvi", "vogn", "vprop"),
    },
}
PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "extra": (),
        "sets": ("yacht", "boston"),
        "splits": 2,
        "trials": 2,
        "startup": 1,
        "folds": 2,
        "epochs": 2,
        "evaluation_samples": 10,
    },
    "quick": {"splits": 3, "trials": 10},
    "paper": {},
}


@dataclass(frozen=True, kw_only=True)
class Best(Config):
    """Settings beyond the table: long training with one sample per step, a decaying rate, and a mixture of posteriors.

    The numbers were chosen by cross-validation inside the training parts of four splits of Boston, Yacht and Concrete.
    """

    methods: tuple[str, ...] = ("vadam",)
    extra: tuple[str, ...] = tuple(f"{CONVERGED}-{name}" for name in SETS)
    objective: str = "log_likelihood"
    first_weights: int | None = None
    trials: int = 20
    betas: tuple[float, float] = (0.9, 0.999)
    epochs: int = 400
    epochs_large: int = 200
    init_precision: float = 10_000.0
    """Initial precision: little noise at the start, so that the first steps are informative."""
    members: int = 5
    """Posteriors in the mixture of a split, from different initial weights."""
    revision: int = 2


@dataclass(frozen=True, kw_only=True)
class Corrected(Best):
    """The settings of ``Best`` with Theorem 1's correction (``batch_size``) in place of a searched temperature: T = 1."""

    extra: tuple[str, ...] = ()
    splits_large: int = 5
    """Splits of the four large sets, the first of the twenty."""
    revision: int = 1


BEST: dict[str, dict[str, Any]] = {
    "smoke": PRESETS["smoke"] | {"members": 2, "extra": (f"{CONVERGED}-yacht",)},
    "quick": {"splits": 3, "trials": 8, "epochs": 100, "epochs_large": 40},
    "paper": {},
}


def data_set(name: str) -> str:
    """Return the name of the data: "kin8nm.8" is split 8 of "kin8nm", repeated."""
    return name.partition(".")[0]


def splits(config: Config, name: str, method: str = "vadam") -> int:
    """Return the number of splits of a set for a method."""
    if name in LARGE and isinstance(config, Corrected):
        return min(config.splits, config.splits_large)
    if name in LARGE and isinstance(config, Best) and method == CONVERGED:
        return min(config.splits, CONVERGED_SPLITS_LARGE)
    return config.splits


def preset(preset: str, protocol: str) -> Config:
    if protocol == "corrected":
        return Corrected(preset=preset, protocol=protocol, **(BEST[preset] | {"extra": ()}))
    if protocol == "best":
        return Best(preset=preset, protocol=protocol, **BEST[preset])
    return Config(preset=preset, protocol=protocol, **(PROTOCOLS[protocol] | PRESETS[preset]))
