"""Train a linear layer on embeddings by any method, and predict with draws of its weights."""

import math
import warnings
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vadam.baselines import MAP
from vadam.gaussian import UninformedPosterior
from vadam.likelihoods import Categorical
from vadam.optim.base import VariationalOptimizer
from vadam.prediction import Classes, predict
from vadam_paper.experiments.halton import Settings
from vadam_paper.experiments.intent.config import Config
from vadam_paper.experiments.intent.methods import MAKE
from vadam_paper.experiments.intent.task import Task
from vadam_paper.experiments.optimizer_setup import Setup
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.timing import Stopwatch


class Fitted(NamedTuple):
    """A linear layer, its posterior (None for a single layer), the processor seconds of its training."""

    model: nn.Module
    posterior: Any | None
    cpu_seconds: float

    def predict(self, X: Tensor, samples: int, noise: torch.Generator) -> Classes:
        posterior = self.posterior
        if posterior is None:
            point = MAP()
            point.model = self.model
            posterior, samples = point, 1
        with warnings.catch_warnings():  # bad settings may leave a posterior that is all prior
            warnings.simplefilter("ignore", UninformedPosterior)
            found = predict(
                self.model, posterior, X, samples, likelihood=Categorical(), generator=noise, batch_size=1000
            )
        assert isinstance(found, Classes)
        return found


def fit(config: Config, method: str, settings: Settings, seed: int, task: Task) -> Fitted:
    """Train for a number of steps; the rate falls to zero along a half cosine."""
    clock, noise = Stopwatch(), generator(config.seed, seed, "noise")
    torch.manual_seed(generator(config.seed, seed, "start").initial_seed())
    (X, y), N = task.train, len(task.train.y)
    model = nn.Linear(X.shape[1], task.classes)
    optimizer = MAKE[method](Setup([*model.parameters()], settings, N, config.batch_size, noise))
    if isinstance(optimizer, VariationalOptimizer):
        optimizer.attach(model)
    likelihood = Categorical()
    for step, rows in enumerate(islice(_minibatches(config, seed, N), config.steps)):
        for group in optimizer.param_groups:
            group["lr"] = settings["lr"] * (1 + math.cos(math.pi * step / config.steps)) / 2
        optimizer.zero_grad()
        likelihood.nll(model(X[rows]), y[rows]).backward()
        optimizer.step()
    posterior = None
    if isinstance(optimizer, VariationalOptimizer):
        posterior = optimizer.posterior(model)
        optimizer.detach()
    return Fitted(model.eval(), posterior, clock.elapsed().cpu_seconds)


def _minibatches(config: Config, seed: int, N: int) -> Iterator[Tensor]:
    """Yield the rows of each minibatch, in a new order every epoch, without end."""
    for epoch in count():
        yield from torch.randperm(N, generator=generator(config.seed, seed, "order", epoch)).split(config.batch_size)
