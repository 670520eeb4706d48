"""The images: a training part, a test part, and inputs that are foreign to both."""

from collections.abc import Iterator
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


class Parts(NamedTuple):
    """Images for choosing settings, which come back in no seed's task, and those that each seed divides anew."""

    X: Tensor
    y: Tensor
    classes: int
    development: Tensor
    rest: Tensor


def load(config: Config) -> Parts:
    found = digits() if config.images == DIGITS else named(config.images)
    order = torch.randperm(len(found.X), generator=generator(config.seed, "split"))[: config.most]
    n = round(config.development_share * len(order))
    return Parts(torch.from_numpy(found.X), torch.from_numpy(found.y), len(found.class_names), order[:n], order[n:])


def folds(config: Config, parts: Parts) -> Iterator[Task]:
    """Every image of the development part is tested on once, by a network that was trained on the other folds."""
    for k, held_out in enumerate(parts.development.chunk(config.folds)):
        others = torch.cat([fold for j, fold in enumerate(parts.development.chunk(config.folds)) if j != k])
        yield _task(config, parts, others, held_out)


def task(config: Config, parts: Parts, seed: int) -> Task:
    order = parts.rest[torch.randperm(len(parts.rest), generator=generator(config.seed, "split", seed))]
    n = round(config.train_share * (len(parts.development) + len(parts.rest)))
    return _task(config, parts, order[:n], order[n : n + config.test_images], seed)


def _task(config: Config, parts: Parts, train: Tensor, test: Tensor, seed: int = 0) -> Task:
    if len(train) < FEWEST or not len(test):
        raise ExperimentError(
            f"{config.images} has {len(parts.X)} images, of which {len(train)} would be for training and {len(test)} for testing: "
            f"it takes {FEWEST} and one at least."
        )
    X, y = parts.X, parts.y
    mean, deviation = X[train].mean(), X[train].std()
    odd = foreign(X[test[: config.foreign_images]], generator(config.seed, "foreign", seed))
    return Task(
        (X[train] - mean) / deviation,
        y[train],
        (X[test] - mean) / deviation,
        y[test],
        {kind: (pixels - mean) / deviation for kind, pixels in odd.items()},
        parts.classes,
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
