"""Settings of `intent`: a pre-trained network of which the last layer, all weights or a LoRA adapter are trained.

The last layer is trained on embeddings that are computed once. All weights and LoRA are trained by the Hugging Face Trainer.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig

METHODS = ("adamw", "adamw-scaled", "vadam", "vadam-paper", "ivon", "vogn")
SIZES = {"all": None, "ten": 10}
"""Training queries for each intent; None for all 100."""
WAYS = ("lora", "full")
"""Fine-tuning with ten training queries of each intent: a LoRA adapter and the head, or all weights."""
WAY_METHODS = ("adamw", "vadam", "ivon", "vogn")


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar[tuple[str, ...]] = ("methods", "seeds", "ways", "way_methods", "way_seeds", "way_trials")

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
    ways: tuple[str, ...] = WAYS
    """How the whole network is fine-tuned."""
    way_methods: tuple[str, ...] = WAY_METHODS
    way_trials: int = 4
    way_seeds: int = 3


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "synthetic": True,
        "trials": 2,
        "seeds": 2,
        "steps": 20,
        "batch_size": 16,
        "samples": 4,
        "way_trials": 1,
        "way_seeds": 1,
    },
    "quick": {"sizes": ("ten",), "trials": 4, "seeds": 2, "steps": 400, "ways": ()},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
