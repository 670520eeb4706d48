"""Settings of `posterior`: small networks on few images, so that all of it takes minutes."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar[tuple[str, ...]] = ("seeds",)

    experiment: str = "posterior"
    synthetic: bool = False
    """True for small drawn images instead of the published sets."""
    train_images: int = 10_000
    """Training images of a task, of a half, and of the network that is pruned."""
    validation_images: int = 2_000
    """Images of the training set on which settings are chosen; no network trains on them."""
    test_images: int = 10_000
    hidden: int = 100
    batch_size: int = 64
    tasks: int = 5
    continual_epochs: int = 2
    """Epochs of each task."""
    merging_epochs: int = 3
    pruning_epochs: int = 6
    samples: int = 32
    """Draws of the weights for a prediction."""
    repetitions: int = 20
    """Splits into halves of the linear and logistic regressions."""
    settings: int | None = None
    """Settings that are tried; None for all of a method's list."""
    seeds: int = 10
    revision: int = 2


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "synthetic": True,
        "train_images": 64,
        "validation_images": 40,
        "test_images": 60,
        "hidden": 8,
        "batch_size": 16,
        "tasks": 2,
        "continual_epochs": 1,
        "merging_epochs": 1,
        "pruning_epochs": 1,
        "samples": 4,
        "repetitions": 2,
        "settings": 2,
        "seeds": 2,
    },
    "quick": {"train_images": 2_000, "test_images": 2_000, "settings": 2, "seeds": 2},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
