"""The images of a run: training, validation and test parts of one set, and the out-of-distribution (OOD) test images of two others."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vadam_paper.data import Images, image_set
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.lenet import SIDE
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.vision.config import Config

FOREIGN = {"fashion": ("mnist", "notmnist"), "mnist": ("fashion", "notmnist")}
"""The sets whose test images are out of distribution for a set."""
PUBLISHED = {"fashion": "fashion-mnist", "mnist": "mnist", "notmnist": "notmnist"}
CLASSES = 10


class Task(NamedTuple):
    """One set, with grey values in [0, 1]; ``scale`` maps them to inputs of the network, by mean and deviation of the training images."""

    train: Labelled
    validation: Labelled
    test: Labelled
    foreign: dict[str, Tensor]
    mean: float
    deviation: float

    def scale(self, X: Tensor) -> Tensor:
        return (X - self.mean) / self.deviation


@cache
def load(config: Config, name: str, data: Path | None) -> Task:
    """Return the task of a set; the split into training and validation images is the same for all methods and seeds."""
    whole, test = _parts(config, name, data)
    order = torch.randperm(len(whole.X), generator=generator(config.seed, "split"))
    n = config.train_images
    train, validation = (Labelled(whole.X[i], whole.y[i]) for i in (order[:n], order[n : n + config.validation_images]))
    foreign = {other: _parts(config, other, data)[-1].X[: config.ood_images] for other in FOREIGN[name]}
    return Task(train, validation, test, foreign, float(train.X.mean()), float(train.X.std()))


def _parts(config: Config, name: str, data: Path | None) -> tuple[Labelled, ...]:
    found = _synthetic(config, name) if config.synthetic else _published(name, data)
    return (*found[:-1], Labelled(found[-1].X[: config.test_images], found[-1].y[: config.test_images]))


@cache
def _published(name: str, data: Path | None) -> tuple[Labelled, ...]:
    return tuple(_part(images) for images in image_set(PUBLISHED[name], data))


def _part(images: Images) -> Labelled:
    return Labelled(torch.from_numpy(images.X), torch.from_numpy(images.y))


def _synthetic(config: Config, name: str) -> tuple[Labelled, ...]:
    """Draw images for tests of the program: each class has its own smooth pattern, with noise."""
    draw = generator(config.seed, "synthetic", name)
    coarse = torch.rand(CLASSES, 1, 4, 4, generator=draw)
    patterns = torch.nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bilinear")
    sizes = (config.train_images + config.validation_images, config.test_images)
    parts = []
    for n in sizes:
        y = torch.randint(CLASSES, (n,), generator=draw)
        noise = 0.2 * torch.randn(n, 1, SIDE, SIDE, generator=draw)
        parts.append(Labelled((patterns[y] + noise).clamp(0, 1), y))
    return tuple(parts)
