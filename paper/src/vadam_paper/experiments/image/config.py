"""Settings of the image classifiers. ``VADAM_IMAGES`` names your own images: an npz, a folder of classes, CIFAR-10."""

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
CIFAR_METHODS = ("adagrad", "vadagrad")
"""Additional methods on CIFAR-10, for App. M's claim."""
DATA_FIELDS = ("experiment", "images", "content", "most")
"""Fields that identify the images."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "image"
    revision: int = 2
    images: str = DIGITS
    content: str = ""
    """Checksum of your own images."""
    most: int | None = None
    """Maximum number of images; None for all."""
    development_share: float = 1 / 3
    """Fraction of images on which settings are chosen; later they are used neither for training nor for testing."""
    folds: int = 2
    """Cross-validation folds of the development images."""
    train_share: float = 1 / 3
    """Fraction of all images for training, drawn for each seed from the images outside development."""
    norms: tuple[str, ...] = ("group", "batch")
    methods: tuple[str, ...] = METHODS
    seeds: int = 5
    channels: tuple[int, int] = (16, 32)
    epochs: int = 40
    """Training budget: every method sees every training image this often; the members of an ensemble share it."""
    batch_size: int = 32
    members: int = 5
    trials: int = 9
    """Number of settings to try for each method."""
    temperature: float = 3e-4
    """Temperature T of the posteriors: the precision is (N s + λ)/T."""
    samples: int = 20
    """Weight samples per prediction."""
    test_images: int = 1_200
    foreign_images: int = 200
    """Number of out-of-distribution images of each kind."""

    @property
    def fingerprint(self) -> str:
        """Return the hash of the settings; for your own images it depends on their content, not on their path."""
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
    """Return this version's configuration for the images of a recorded run, wherever they are now."""
    of_data = {name: recorded[name] for name in DATA_FIELDS if name in recorded}
    shape = _shape(CIFAR_METHODS[0] in recorded["methods"]) if of_data.get("content") else {}
    changes = shape | of_data | PRESETS[recorded["preset"]]
    return Config(preset=recorded["preset"], protocol=recorded["protocol"], **changes)


def _own(images: Path, most: str | None) -> dict[str, Any]:
    """Return the fields for the user's images: a name of their own and a checksum of their content."""
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
    """Return the sizes of the parts: a fifth to choose settings, three fifths to train.

    CIFAR-10 has its own test images and two more methods (App. M).
    """
    if is_cifar:
        return {
            "development_share": 0.2,
            "train_share": 0.8,
            "test_images": 10_000,
            "methods": (*METHODS, *CIFAR_METHODS),
        }
    return {"development_share": 0.2, "train_share": 0.6, "test_images": 10_000}


def _count(most: str | None) -> int | None:
    if not most:
        return None
    if not most.isdecimal() or int(most) < 1:
        raise ExperimentError(f"VADAM_IMAGES_MOST must be a number of images, e.g. 5000, got {most!r}.")
    return int(most)


def content_of(images: Path) -> str:
    """Return the checksum of a file, or of all files in a folder with their names."""
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
