"""Settings of Table 1 (paper App. J.1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig

SETS = ("yacht", "boston", "energy", "concrete", "wine", "kin8nm", "power", "naval")
"""In the order in which they are run: the quick ones first."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar = ("extra",)

    experiment: str = "uci"
    sets: tuple[str, ...] = SETS
    methods: tuple[str, ...] = ("vadam", "bbvi", "vogn", "vprop", "mc-dropout")
    extra: tuple[str, ...] = ()
    """Cells beside those of every method on every set."""
    splits: int = 20
    trials: int = 30
    """Points that Bayesian optimisation tries for a split, the first ``startup`` of them at random."""
    startup: int = 5
    folds: int = 5
    epochs: int = 40
    hidden: int = 50
    lr: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    """The text has them the other way round."""
    evaluation_samples: int = 100
    first_weights: int | None = 123
    """The authors start every network from the weights of this seed; None gives each its own."""
    objective: str = "joint_log_likelihood"
    """What the search makes large, as a mean over the folds: the authors' joint log-likelihood, or the pointwise one."""


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
    """Beyond the table: long training with one sample a step, a falling rate, and a mixture of posteriors.

    The numbers were chosen by cross-validation inside the training parts of four splits of Boston, Yacht and Concrete.
    """

    methods: tuple[str, ...] = ("vadam",)
    objective: str = "log_likelihood"
    first_weights: int | None = None
    trials: int = 20
    betas: tuple[float, float] = (0.9, 0.999)
    epochs: int = 400
    epochs_large: int = 200
    init_precision: float = 10_000.0
    """The posterior starts narrow, so that the first steps are not lost in noise."""
    members: int = 5
    """Posteriors in the mixture of a split, from different first weights."""
    revision: int = 2


BEST: dict[str, dict[str, Any]] = {
    "smoke": PRESETS["smoke"] | {"members": 2},
    "quick": {"splits": 3, "trials": 8, "epochs": 100, "epochs_large": 40},
    "paper": {},
}


def data_set(name: str) -> str:
    """Return the name of the data: "kin8nm.8" is split 8 of "kin8nm", as often as others have splits."""
    return name.partition(".")[0]


def preset(preset: str, protocol: str) -> Config:
    if protocol == "best":
        return Best(preset=preset, protocol=protocol, **BEST[preset])
    return Config(preset=preset, protocol=protocol, **(PROTOCOLS[protocol] | PRESETS[preset]))
