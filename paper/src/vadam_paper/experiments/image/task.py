"""Split the images: a training part, a test part, and out-of-distribution inputs."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vadam_paper.data import DataNotAvailable, Images, images
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.image import cifar
from vadam_paper.experiments.image.config import DIGITS, Config
from vadam_paper.experiments.randomness import generator

FEWEST = 20
"""Minimum number of training images."""


class Task(NamedTuple):
    """Training, test and out-of-distribution images, standardised by mean and deviation of the training part."""

    X: Tensor
    y: Tensor
    test_X: Tensor
    test_y: Tensor
    ood: dict[str, Tensor]
    classes: int


class Parts(NamedTuple):
    """The images to choose settings on, which no seed uses later, and the images that each seed splits.

    A set with its own test images has them in ``test``; then seeds differ only in the training images.
    """

    X: Tensor
    y: Tensor
    classes: int
    development: Tensor
    rest: Tensor
    test: Tensor | None = None


def load(config: Config) -> Parts:
    found, own_tests = (digits(), 0) if config.images == DIGITS else named(config.images)
    _check(config, found)
    n = len(found.X) - own_tests
    order = torch.randperm(n, generator=generator(config.seed, "split"))[: config.most]
    cut = round(config.development_share * len(order))
    test = torch.arange(n, len(found.X)) if own_tests else None
    X, y = torch.from_numpy(found.X), torch.from_numpy(found.y)
    return Parts(X, y, len(found.class_names), order[:cut], order[cut:], test)


def _check(config: Config, found: Images) -> None:
    present = len(np.unique(found.y))
    if present < 2:
        raise ExperimentError(f"{config.images} has {present} class: a classifier needs at least two.")
    if present < len(found.class_names):
        raise ExperimentError(
            f"{config.images} has class numbers up to {len(found.class_names) - 1}, but images of {present} classes only: "
            "number those from 0, y = numpy.unique(y, return_inverse=True)[1]."
        )
    if not found.X.std() > 0:
        raise ExperimentError(f"All pixels of {config.images} are {found.X.flat[0]:g}: there is nothing to learn from.")


def folds(config: Config, parts: Parts) -> Iterator[Task]:
    """Yield a task for each fold: every development image is tested once, by a network trained on the other folds."""
    for k, held_out in enumerate(parts.development.chunk(config.folds)):
        others = torch.cat([fold for j, fold in enumerate(parts.development.chunk(config.folds)) if j != k])
        yield _task(config, parts, others, held_out)


def task(config: Config, parts: Parts, seed: int) -> Task:
    order = parts.rest[torch.randperm(len(parts.rest), generator=generator(config.seed, "split", seed))]
    n = round(config.train_share * (len(parts.development) + len(parts.rest)))
    test = order[n:] if parts.test is None else parts.test
    return _task(config, parts, order[:n], test[: config.test_images], seed)


def _task(config: Config, parts: Parts, train: Tensor, test: Tensor, seed: int = 0) -> Task:
    if len(train) < FEWEST or not len(test):
        raise ExperimentError(
            f"{config.images} has {len(parts.X)} images, of which {len(train)} would be for training and {len(test)} for testing: "
            f"at least {FEWEST} and 1 are needed."
        )
    X, y = parts.X, parts.y
    mean, deviation = X[train].mean(), X[train].std()
    shifted = out_of_distribution(X[test[: config.foreign_images]], generator(config.seed, "foreign", seed))
    return Task(
        (X[train] - mean) / deviation,
        y[train],
        (X[test] - mean) / deviation,
        y[test],
        {kind: (pixels - mean) / deviation for kind, pixels in shifted.items()},
        parts.classes,
    )


def out_of_distribution(X: Tensor, noise: torch.Generator) -> dict[str, Tensor]:
    """Return rotated images, inverted images, and uniform noise in the range of the images."""
    low, high = X.min(), X.max()
    return {
        "rotated": X.rot90(dims=(2, 3)),
        "inverted": low + high - X,
        "noise": low + (high - low) * torch.rand(X.shape, generator=noise),
    }


def digits() -> Images:
    """Return the 1,797 digits of 8 × 8 pixels that are bundled with scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataNotAvailable('the digits come with scikit-learn: pip install "vadam[sklearn]"') from error
    found = load_digits()
    X = (found.images[:, None] / 16).astype(np.float32)
    return Images(X, found.target.astype(np.int64), tuple(map(str, range(10))))


def named(path: str) -> tuple[Images, int]:
    """Read an npz, a folder of classes (``vadam_paper.data.images``), or the folder of CIFAR-10's binary version.

    Return the images, and the number of images at the end that the set itself reserves for testing.
    """
    folder = Path(path).expanduser()
    try:
        if cifar.is_folder(folder):
            return cifar.read(folder)
        return images(folder), 0
    except (OSError, ValueError, ImportError) as error:
        raise ExperimentError(f"VADAM_IMAGES cannot be read: {error}.") from error
