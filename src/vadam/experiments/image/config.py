"""Settings of the image classifiers. ``VADAM_IMAGES`` names images of your own: an npz, or a folder of classes."""

import os
from dataclasses import dataclass
from typing import Any

from vadam.experiments.config import Config as BaseConfig

DIGITS = "digits"
METHODS = ("adam", "vadam", "vogn", "ivon", "mc-dropout", "deep-ensemble", "deep-ensemble-full")
ON_CIFAR = ("adagrad", "vadagrad")
"""For App. M's claim about CIFAR-10."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "image"
    images: str = DIGITS
    train_share: float = 1 / 3
    norms: tuple[str, ...] = ("group", "batch")
    methods: tuple[str, ...] = METHODS
    seeds: int = 5
    channels: tuple[int, int] = (16, 32)
    epochs: int = 40
    """The budget: every method sees every training image this often, all members of an ensemble taken together."""
    batch_size: int = 32
    members: int = 5
    trials: int = 6
    """Settings that are tried for each method."""
    validation_share: float = 1 / 3
    """Of the training images, on which a method's settings are chosen."""
    samples: int = 32
    """Of the weights, in prediction."""
    test_images: int = 1_200
    foreign_images: int = 400
    """Of each kind."""


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "norms": ("batch",),
        "seeds": 2,
        "channels": (4, 8),
        "epochs": 5,
        "batch_size": 64,
        "trials": 1,
        "samples": 3,
        "train_share": 0.1,
        "test_images": 60,
        "foreign_images": 20,
    },
    "quick": {"norms": ("group",), "seeds": 2, "trials": 2},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **(named(os.environ.get("VADAM_IMAGES")) | PRESETS[preset]))


def named(images: str | None) -> dict[str, Any]:
    """Images of the user's: four fifths of them for training, and on CIFAR-10 the methods of App. M too."""
    if not images:
        return {}
    more = ON_CIFAR if is_cifar(images) else ()
    return {"images": images, "train_share": 0.8, "test_images": 10_000, "methods": (*METHODS, *more)}


def is_cifar(images: str) -> bool:
    return "cifar" in images.lower()
