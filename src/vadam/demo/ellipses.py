"""Logistic regression with two weights: the true posterior, the best mean-field Gaussian, and what optimizers find.

The data are two clouds as in Murphy (2012), Fig. 8.6. The prior precision is 0.1, ten times that of the paper's
Fig. 2(a). With the paper's value, the posterior is so far from zero that reaching it takes hundreds of thousands of
steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import vadam
from vadam import data
from vadam.demo.regression import SEED, ReportProgress, train
from vadam.exact import logistic
from vadam.exact.grid import GridPosterior, grid_posterior

PRIOR_PRECISION = 0.1
RANGES = ((0.0, 14.0), (-0.5, 6.0))  # contains nearly all of the true posterior's mass


@dataclass(frozen=True)
class Run:
    """An optimizer with its settings, on minibatches of ``batch_size``."""

    optimizer: type[vadam.VariationalOptimizer]
    batch_size: int
    rates: dict[str, Any]

    @property
    def settings(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.rates.items())


RUNS = {
    "VOGN, M = 10": Run(vadam.VOGN, 10, {"lr": 0.05, "beta": 0.998}),
    "Vadam, M = 1": Run(vadam.Vadam, 1, {"lr": 0.2, "betas": (0.9, 0.998)}),
    "Vadam, M = 10": Run(vadam.Vadam, 10, {"lr": 0.1, "betas": (0.9, 0.998)}),
}


@dataclass(frozen=True)
class Ellipse:
    """A Gaussian over two weights; ``divergence`` is its symmetric KL from the best mean-field one, in nats."""

    mean: np.ndarray
    stddev: np.ndarray
    divergence: float = 0.0


def exact() -> Ellipse:
    """Return the best mean-field Gaussian."""
    fit = _best()
    return Ellipse(fit.mean.numpy(), fit.stddev.numpy())


def true_posterior(points: int = 240) -> GridPosterior:
    """Return the true posterior on a grid."""
    X, y = data.murphy_like()
    signed = torch.from_numpy(X * np.where(y > 0, 1.0, -1.0)[:, None])

    def log_joint(w: torch.Tensor) -> torch.Tensor:
        log_likelihood = nn.functional.logsigmoid(w @ signed.T).sum(1)
        return log_likelihood - 0.5 * PRIOR_PRECISION * w.square().sum(1)

    return grid_posterior(log_joint, *RANGES, points=points)


def learn(run: Run, steps: int, report: ReportProgress) -> Ellipse:
    """Train by one optimizer and return the Gaussian that it found."""
    x, y = map(torch.from_numpy, data.murphy_like())
    y = y[:, None]
    network = nn.Linear(2, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(network.weight)
    optimizer = run.optimizer(
        network.parameters(),
        num_data=len(x),
        prior_precision=PRIOR_PRECISION,
        init_precision=1.0,
        generator=torch.Generator().manual_seed(SEED),
        **run.rates,
    ).attach(network)
    train(network, optimizer, vadam.Bernoulli(), x, y, steps, run.batch_size, report)
    q = optimizer.posterior(network)
    best = _best().posterior()
    assert isinstance(best, vadam.MeanFieldGaussian)
    return Ellipse(
        q.mean["weight"].flatten().numpy(), q.stddev["weight"].flatten().numpy(), float(q.symmetric_kl(best))
    )


def _best() -> logistic.Fit:
    return logistic.mean_field(*data.murphy_like(), PRIOR_PRECISION)
