"""Settings of the image classifiers. ``VADAM_IMAGES`` names images of your own: an npz, a folder of classes, CIFAR-10."""

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.image import cifar

DIGITS = "digits"
METHODS = ("adam", "vadam", "vogn", "ivon", "mc-dropout", "deep-ensemble", "deep-ensemble-full")
ON_CIFAR = ("adagrad", "vadagrad")
"""For App. M's claim about CIFAR-10."""
OF_DATA = ("experiment", "images", "content", "most")
"""Fields that say which images, not what is done with them."""


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

    @property
    def fingerprint(self) -> str:
        """What images of your own hold is in it, and not where they are."""
        return replace(self, images="").fingerprint if self.content and self.images else super().fingerprint


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
    images = os.environ.get("VADAM_IMAGES")
    of_data = _own(Path(images).expanduser(), os.environ.get("VADAM_IMAGES_MOST")) if images else {}
    return Config(preset=preset, protocol=protocol, **(of_data | PRESETS[preset]))


def like(recorded: dict[str, Any]) -> Config:
    """The configuration that this version has for the images of a recorded one, wherever they are now."""
    of_data = {name: recorded[name] for name in OF_DATA if name in recorded}
    shape = _shape(ON_CIFAR[0] in recorded["methods"]) if of_data.get("content") else {}
    changes = shape | of_data | PRESETS[recorded["preset"]]
    return Config(preset=recorded["preset"], protocol=recorded["protocol"], **changes)


def _own(images: Path, most: str | None) -> dict[str, Any]:
    """Images of the user's, recorded under a name of their own; what they hold counts, not where they are."""
    content = content_of(images)
    name = re.sub(r"[^A-Za-z0-9]+", "-", images.resolve().stem).strip("-") or "own"
    of_data = {
        "experiment": f"image-{name}-{content[:8]}",
        "images": str(images),
        "content": content,
        "most": _count(most),
    }
    return _shape(cifar.is_folder(images)) | of_data


def _shape(is_cifar: bool) -> dict[str, Any]:
    """A fifth for choosing settings and three for training; CIFAR-10 has test images of its own, and App. M's methods."""
    if is_cifar:
        return {"development_share": 0.2, "train_share": 0.8, "test_images": 10_000, "methods": (*METHODS, *ON_CIFAR)}
    return {"development_share": 0.2, "train_share": 0.6, "test_images": 10_000}


def _count(most: str | None) -> int | None:
    if not most:
        return None
    if not most.isdecimal() or int(most) < 1:
        raise ExperimentError(f"VADAM_IMAGES_MOST is a number of images, e.g. 5000, not {most!r}.")
    return int(most)


def content_of(images: Path) -> str:
    """Of a file, or of all files in a folder with their names."""
    files = sorted(path for path in images.rglob("*") if path.is_file()) if images.is_dir() else [images]
    digest = hashlib.sha256()
    for file in files:
        try:
            digest.update(f"{file.relative_to(images)}\n{file.stat().st_size}\n".encode())
            with file.open("rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
        except OSError as error:
            raise ExperimentError(f"VADAM_IMAGES cannot be read: {error}.") from error
    return digest.hexdigest()[:16]
