"""The embeddings of the queries in six parts, with their intents."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vadam_paper.data import intents
from vadam_paper.experiments.intent.config import SIZES, Config
from vadam_paper.experiments.intent.embed import embeddings
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.randomness import generator

SYNTHETIC = (6, 12, 8)
"""Intents, queries of each, and dimension of drawn embeddings."""


class Task(NamedTuple):
    """Training, validation and test queries, and test queries out of scope."""

    train: Labelled
    validation: Labelled
    test: Labelled
    out_of_scope: Tensor
    classes: int


def load(config: Config, size: str, data: Path | None, report: Callable[[float], None] = lambda f: None) -> Task:
    return _limited(_synthetic(config) if config.synthetic else _published(data, report), SIZES[size])


def _published(data: Path | None, report: Callable[[float], None]) -> Task:
    X, parts = embeddings(data, report), intents(data)
    train, validation, test = (Labelled(X[name], torch.tensor(parts[name].labels)) for name in ("train", "val", "test"))
    return Task(train, validation, test, X["oos_test"], int(train.y.max()) + 1)


def _limited(task: Task, per_class: int | None) -> Task:
    """Keep the first so many training queries of each class."""
    if per_class is None:
        return task
    rows = torch.cat([(task.train.y == k).nonzero().flatten()[:per_class] for k in range(task.classes)])
    return task._replace(train=Labelled(task.train.X[rows], task.train.y[rows]))


def _synthetic(config: Config) -> Task:
    """Draw embeddings for tests of the program: a cloud for each intent, and a wide cloud out of scope."""
    classes, n, dimension = SYNTHETIC
    draw = generator(config.seed, "synthetic")
    centres = torch.randn(classes, dimension, generator=draw)
    y = torch.arange(classes).repeat(n)
    train, validation, test = (
        Labelled(centres[y] + 0.5 * torch.randn(len(y), dimension, generator=draw), y) for _ in range(3)
    )
    return Task(train, validation, test, 2 * torch.randn(40, dimension, generator=draw), classes)
