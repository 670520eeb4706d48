"""Settings of App. M; sizes of network and minibatches are torch-rnn's defaults, which Wilson et al. (2017) start from."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig

PAPER = ("sgd", "adagrad", "adam", "vadagrad")
OTHER_READING = ("vadagrad-total",)
"""VadaGrad with F the total loss instead of the mean."""
OURS = ("vadam", "ivon", "vogn")
SCHEDULE = 200
"""The number of epochs that Table 4's K is taken to belong to; the text does not say it."""
COMPRESSED = ("smoke", "early")
"""Presets that have the whole schedule within their few epochs."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "char-lm"
    methods: tuple[str, ...] = (*PAPER, *OURS)
    seeds: int = 3
    stretches: tuple[int, ...]
    """A run is recorded after each of these numbers of epochs; the last is its length."""
    characters: int | None = None
    """Of the text's beginning; None for all of it."""
    embedding: int = 64
    hidden: int = 128
    layers: int = 2
    sequences: int = 50
    """In a minibatch, each of ``steps`` characters."""
    steps: int = 50
    clip: float = 5.0
    """Largest absolute value in a gradient of the mean loss of a character."""

    @property
    def epochs(self) -> int:
        return self.stretches[-1]

    def rate(self, alpha: float, K: int, epoch: int) -> float:
        """α is divided by 10 every K epochs; in compressed presets at the same fractions of the run as in ``SCHEDULE`` epochs."""
        return alpha / 10 ** int(epoch * self.compression // K)

    @property
    def compression(self) -> float:
        """How many times sooner than Table 4 says α falls."""
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
    "long": {"methods": (*PAPER, *OTHER_READING), "seeds": 2, "stretches": (10, 20, 40, 80)},
    "paper": {"stretches": (10, 20, 40, 80, 120, 160, 200)},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
