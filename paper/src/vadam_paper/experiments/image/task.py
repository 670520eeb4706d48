"""The images: a training part, a test part, and inputs that are foreign to both."""

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
    """Images for choosing settings, which come back in no seed's task, and those that each seed divides anew.

    Where a set has test images of its own, they are ``test`` in every task, and seeds differ in what they train on.
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
        raise ExperimentError(f"{config.images} has {present} class: a classifier takes two at least.")
    if present < len(found.class_names):
        raise ExperimentError(
            f"{config.images} has class numbers up to {len(found.class_names) - 1}, but images of {present} classes only: "
            "number those from 0, y = numpy.unique(y, return_inverse=True)[1]."
        )
    if not found.X.std() > 0:
        raise ExperimentError(f"All pixels of {config.images} are {found.X.flat[0]:g}: there is nothing to learn from.")


def folds(config: Config, parts: Parts) -> Iterator[Task]:
    """Every image of the development part is tested on once, by a network that was trained on the other folds."""
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


def named(path: str) -> tuple[Images, int]:
    """An npz or a folder of classes, as ``vadam_paper.data.images`` reads them, or the folder of CIFAR-10's binary version.

    With the number of images at the end that the set itself keeps for testing.
    """
    folder = Path(path).expanduser()
    try:
        if cifar.is_folder(folder):
            return cifar.read(folder)
        return images(folder), 0
    except (OSError, ValueError, ImportError) as error:
        raise ExperimentError(f"VADAM_IMAGES cannot be read: {error}.") from error
