"""The images: a training part, a test part, and inputs that are foreign to both."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vadam.data import DataNotAvailable, Images, images
from vadam.experiments.contract import ExperimentError
from vadam.experiments.image.config import DIGITS, Config
from vadam.experiments.randomness import generator

CIFAR_RECORD = 1 + 3 * 32 * 32
FEWEST = 20
"""Images for training."""


class Task(NamedTuple):
    """Pixels are standardised by the mean and the deviation of the training part."""

    X: Tensor
    y: Tensor
    test_X: Tensor
    test_y: Tensor
    foreign: dict[str, Tensor]
    classes: int


def load(config: Config) -> Task:
    found = digits() if config.images == DIGITS else named(config.images)
    X, y = torch.from_numpy(found.X), torch.from_numpy(found.y)
    order = torch.randperm(len(X), generator=generator(config.seed, "split"))
    n = round(config.train_share * len(X))
    if n < FEWEST or len(X) <= n:
        raise ExperimentError(
            f"{config.images} has {len(X)} images, of which {n} would be for training and {len(X) - n} for testing: "
            f"it takes {FEWEST} and one at least."
        )
    train, test = order[:n], order[n : n + config.test_images]
    mean, deviation = X[train].mean(), X[train].std()
    odd = foreign(X[test[: config.foreign_images]], generator(config.seed, "foreign"))
    return Task(
        (X[train] - mean) / deviation,
        y[train],
        (X[test] - mean) / deviation,
        y[test],
        {kind: (pixels - mean) / deviation for kind, pixels in odd.items()},
        len(found.class_names),
    )


def foreign(X: Tensor, noise: torch.Generator) -> dict[str, Tensor]:
    """Turned by a quarter, with black and white exchanged, and pixels by chance in the range of the images."""
    low, high = X.min(), X.max()
    return {
        "rotated": X.rot90(dims=(2, 3)),
        "inverted": low + high - X,
        "noise": low + (high - low) * torch.rand(X.shape, generator=noise),
    }


def digits() -> Images:
    """The 1,797 digits of 8 × 8 pixels that scikit-learn carries."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataNotAvailable('the digits come with scikit-learn: pip install "vadam[sklearn]"') from error
    found = load_digits()
    X = (found.images[:, None] / 16).astype(np.float32)
    return Images(X, found.target.astype(np.int64), tuple(map(str, range(10))))


def named(path: str) -> Images:
    """An npz or a folder of classes, as ``vadam.data.images`` reads them, or the folder of CIFAR-10's binary version."""
    folder = Path(path).expanduser()
    batches = sorted(folder.glob("*_batch*.bin")) if folder.is_dir() else []
    try:
        return cifar_10(batches) if batches else images(folder)
    except (OSError, ValueError, ImportError) as error:
        raise ExperimentError(f"VADAM_IMAGES cannot be read: {error}.") from error


def cifar_10(batches: list[Path]) -> Images:
    """A record is the number of the class and 3 × 32 × 32 pixels."""
    records = np.concatenate([np.fromfile(batch, dtype=np.uint8) for batch in batches]).reshape(-1, CIFAR_RECORD)
    X = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)
    return Images(X, records[:, 0].astype(np.int64), tuple(map(str, range(10))))
