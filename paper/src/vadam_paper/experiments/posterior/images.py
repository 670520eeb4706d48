"""The images of the experiment: training, validation and test parts of MNIST and Fashion-MNIST."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from vadam_paper.data import image_set
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.posterior.config import Config
from vadam_paper.experiments.randomness import generator

SIDE = 28
CLASSES = 10


class Images(NamedTuple):
    """The parts of a set, scaled by mean and deviation of the training images."""

    train: Labelled
    validation: Labelled
    test: Labelled


@cache
def load(config: Config, name: str, count: int, data: Path | None) -> Images:
    """Return a set with ``count`` training images; the split is the same for all methods and seeds."""
    whole, test = _synthetic(config, count) if config.synthetic else _published(name, data)
    order = torch.randperm(len(whole.X), generator=generator(config.seed, "split"))
    held_out, used = order[: config.validation_images], order[config.validation_images :][:count]
    mean, deviation = whole.X[used].mean(), whole.X[used].std()
    parts = (whole.X[used], whole.y[used]), (whole.X[held_out], whole.y[held_out]), tuple(test)
    train, validation, tested = (Labelled((X - mean) / deviation, y) for X, y in parts)
    return Images(train, validation, Labelled(*(values[: config.test_images] for values in tested)))


@cache
def _published(name: str, data: Path | None) -> tuple[Labelled, Labelled]:
    train, test = (Labelled(torch.from_numpy(part.X), torch.from_numpy(part.y)) for part in image_set(name, data))
    return train, test


def _synthetic(config: Config, count: int) -> tuple[Labelled, Labelled]:
    """Draw images for tests of the program: each class has its own pattern, with noise."""
    draw = generator(config.seed, "synthetic")
    patterns = torch.rand(CLASSES, 1, SIDE, SIDE, generator=draw)

    def part(n: int) -> Labelled:
        y = torch.randint(CLASSES, (n,), generator=draw)
        return Labelled((patterns[y] + 0.2 * torch.randn(n, 1, SIDE, SIDE, generator=draw)).clamp(0, 1), y)

    return part(count + config.validation_images), part(config.test_images)
