"""Settings of `vision`: the network, budget and images that all methods share."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig

FIRST = ("adamw", "vadam", "ivon", "mc-dropout", "adamw-scaled", "laplace")
"""Methods that run before all others, with all seeds."""
POOLS = ("deep-ensemble", "mixture")
"""Methods that take the networks of all seeds together."""
METHODS = (*FIRST, *POOLS, "vogn", "sgd", "swag", "evon", "vadam-paper", "ivon-opt")


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar[tuple[str, ...]] = ("methods", "seeds", "long")

    experiment: str = "vision"
    synthetic: bool = False
    """True for small drawn images instead of the published sets."""
    train_images: int = 50_000
    validation_images: int = 10_000
    """Images of the training set on which settings are chosen; no network trains on them."""
    test_images: int = 10_000
    ood_images: int = 2_500
    """Test images of each out-of-distribution set."""
    shifted_images: int = 500
    """Test images for each rotation and each strength of noise."""
    widths: tuple[int, int, int, int] = (6, 16, 120, 84)
    """Channels of the three convolutions and units of the dense layer."""
    batch_size: int = 256
    epochs: int = 12
    rungs: tuple[tuple[int, int], ...] = ((3, 8), (6, 3), (12, 2))
    """Successive halving: (number of epochs, number of settings that get as far); the last is the whole training."""
    samples: int = 16
    """Draws of the weights for a prediction."""
    tuning_samples: int = 8
    member_samples: int = 4
    """Draws of each posterior of a mixture."""
    most_draws: int = 64
    """Draws of the longest prediction in the study of the number of draws."""
    draws_images: int = 2_500
    """Test images of that study."""
    members: int = 5
    rotations: tuple[int, ...] = (15, 30, 45, 60, 75)
    noises: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5)
    """Standard deviations of the noise, for grey values in [0, 1]."""
    methods: tuple[str, ...] = METHODS
    seeds: int = 5
    long: tuple[int, ...] = (30, 60)
    """Other numbers of epochs, for the study of the training time."""

    @property
    def trials(self) -> int:
        """Return the number of settings that each method tries."""
        return self.rungs[0][1]


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "synthetic": True,
        "train_images": 64,
        "validation_images": 40,
        "test_images": 60,
        "ood_images": 30,
        "shifted_images": 20,
        "draws_images": 30,
        "widths": (2, 3, 4, 8),
        "batch_size": 32,
        "epochs": 2,
        "rungs": ((1, 2), (2, 1)),
        "samples": 4,
        "tuning_samples": 2,
        "member_samples": 2,
        "most_draws": 8,
        "members": 2,
        "seeds": 2,
        "long": (1,),
    },
    "quick": {
        "train_images": 5_000,
        "validation_images": 2_000,
        "test_images": 2_000,
        "ood_images": 1_000,
        "shifted_images": 200,
        "draws_images": 1_000,
        "epochs": 10,
        "rungs": ((2, 4), (10, 2)),
        "methods": ("adamw", "vadam", "ivon", "mc-dropout", "laplace"),
        "seeds": 1,
        "long": (),
    },
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
