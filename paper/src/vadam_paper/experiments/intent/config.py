"""Settings of `intent`: the last layer of a pre-trained network, trained on embeddings that are computed once."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig

METHODS = ("adamw", "adamw-scaled", "vadam", "vadam-paper", "ivon", "vogn")
SIZES = {"all": None, "ten": 10}
"""Training queries for each intent; None for all 100."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar[tuple[str, ...]] = ("methods", "seeds")

    experiment: str = "intent"
    synthetic: bool = False
    """True for drawn embeddings of few intents."""
    sizes: tuple[str, ...] = ("all", "ten")
    methods: tuple[str, ...] = METHODS
    trials: int = 16
    seeds: int = 5
    steps: int = 1_200
    batch_size: int = 128
    samples: int = 32


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"synthetic": True, "trials": 2, "seeds": 2, "steps": 20, "batch_size": 16, "samples": 4},
    "quick": {"sizes": ("ten",), "trials": 4, "seeds": 2, "steps": 400},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
