"""Settings of App. M; network and minibatch sizes are torch-rnn's defaults, the starting point of Wilson et al. (2017)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig

PAPER = ("sgd", "adagrad", "adam", "vadagrad")
OTHER_READING = ("vadagrad-total",)
"""VadaGrad with F the total loss instead of the mean."""
OURS = ("vadam", "ivon", "vogn")
SCHEDULE = 200
"""Number of epochs to which Table 4's K refers; this is our assumption, the text does not say."""
COMPRESSED = ("smoke", "early")
"""Presets that have the whole schedule within their few epochs."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar = ("other_reading_epochs",)

    experiment: str = "char-lm"
    methods: tuple[str, ...] = (*PAPER, *OURS)
    seeds: int = 3
    stretches: tuple[int, ...]
    """Numbers of epochs after which a run is recorded; the last is its length."""
    other_reading_epochs: int | None = None
    """Epochs after which the other reading of F ends, run with one seed; None for as many epochs and seeds as the rest."""
    characters: int | None = None
    """Number of characters to use from the start of the text; None for all."""
    embedding: int = 64
    hidden: int = 128
    layers: int = 2
    sequences: int = 50
    """Sequences per minibatch, each of ``steps`` characters."""
    steps: int = 50
    clip: float = 5.0
    """Largest absolute value in a gradient of the mean loss of a character."""

    @property
    def epochs(self) -> int:
        return self.stretches[-1]

    def rate(self, alpha: float, K: int, epoch: int) -> float:
        """Return the learning rate: α is divided by 10 every K epochs.

        Compressed presets divide at the same fractions of their length as a run of ``SCHEDULE`` epochs.
        """
        return alpha / 10 ** int(epoch * self.compression // K)

    @property
    def compression(self) -> float:
        """Return how many times sooner than in Table 4 α falls."""
        return SCHEDULE / self.epochs if self.preset in COMPRESSED else 1


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "seeds": 1,
        "stretches": (2,),
        "characters": 3_000,
        "embedding": 6,
        "hidden": 8,
        "sequences": 5,
        "steps": 20,
    },
    "quick": {
        "methods": (*PAPER, *OTHER_READING, *OURS),
        "seeds": 1,
        "stretches": (10,),
        "characters": 200_000,
    },
    "early": {"stretches": (10,)},
    "long": {
        "methods": (*PAPER, *OTHER_READING),
        "seeds": 2,
        "stretches": (10, 20, 40, 50, 80),
        "other_reading_epochs": 10,
    },
    "paper": {"stretches": (10, 20, 40, 80, 120, 160, 200)},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
