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
    revision: int = 2
    images: str = DIGITS
    content: str = ""
    """The fingerprint of images of your own."""
    most: int | None = None
    """Of all images; None for all of them."""
    development_share: float = 1 / 3
    """The images on which settings are chosen; they are neither trained nor tested on later."""
    folds: int = 2
    """Of them: each is predicted by a network that was trained on the others."""
    train_share: float = 1 / 3
    """Of all images, drawn anew for each seed from what development leaves."""
    norms: tuple[str, ...] = ("group", "batch")
    methods: tuple[str, ...] = METHODS
    seeds: int = 5
    channels: tuple[int, int] = (16, 32)
    epochs: int = 40
    """The budget: every method sees every training image this often, all members of an ensemble taken together."""
    batch_size: int = 32
    members: int = 5
    trials: int = 9
    """Settings that are tried for each method."""
    temperature: float = 3e-4
    """T of the posteriors that are sampled from: the precision is (N s + λ)/T."""
    samples: int = 20
    """Of the weights, in prediction."""
    test_images: int = 1_200
    foreign_images: int = 200
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
        "development_share": 0.1,
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
    """Images of the user's: a fifth for choosing settings, three for training, and on CIFAR-10 the methods of App. M too."""
    if not images:
        return {}
    more = ON_CIFAR if is_cifar(images) else ()
    shares = {"development_share": 0.2, "train_share": 0.6}
    return {"images": images, **shares, "test_images": 10_000, "methods": (*METHODS, *more)}


def is_cifar(images: str) -> bool:
    return "cifar" in images.lower()
