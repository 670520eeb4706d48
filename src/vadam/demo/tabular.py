"""Boston and Concrete, the first published split: a ReLU network with 50 hidden units on standardised columns.

The noise precision comes from the errors of MAP-Adam on a fifth of the training rows, after training on the others.
All methods use it. The test rows are used once, to evaluate the trained methods.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from vadam import Gaussian, data, metrics
from vadam.demo.methods import METHODS
from vadam.demo.regression import Learned, Problem, ReportProgress, learn

TABLES = {"boston": data.boston, "concrete": data.concrete}
LEVELS = np.arange(0.1, 1.0, 0.1)
HIDDEN = 50
INITIAL_NOISE_PRECISION = 10.0  # until the noise is measured


@dataclass(frozen=True)
class Intervals:
    """Test rows in the units of the target; ``covered`` [K] is the fraction inside the interval of each level."""

    actual: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    covered: np.ndarray


def measure_noise(name: str, steps: int, report: ReportProgress) -> float:
    """Return the noise precision, in units of the standardised target."""
    train, _ = _split(name)
    fifth = len(train) // 5
    held_out = _problem(name, train[:-fifth], train[-fifth:], INITIAL_NOISE_PRECISION)
    errors = learn(held_out, METHODS["MAP-Adam"], steps, report).predict(held_out.x_test)
    return float(1 / metrics.rmse(errors.mean, held_out.y_test) ** 2)


def problem(name: str, noise_precision: float) -> Problem:
    """Return the regression problem of a table."""
    train, test = _split(name)
    return _problem(name, train, test, noise_precision)


def intervals(problem: Problem, learned: Learned) -> Intervals:
    """Return the predicted intervals of the test rows."""
    prediction = learned.predict(problem.x_test)
    low, high = prediction.interval(0.9)
    covered = [float(metrics.coverage(*prediction.interval(float(level)), problem.y_test)) for level in LEVELS]
    actual, mean, lower, upper = (
        (problem.unit * values + problem.center).flatten().numpy()
        for values in (problem.y_test, prediction.mean, low, high)
    )
    return Intervals(actual, mean, lower, upper, np.array(covered))


def check() -> None:
    """Raise ImportError before the training if a table cannot be read."""
    for read in TABLES.values():
        read()


def _split(name: str) -> data.Split:
    X, _ = TABLES[name]()
    return data.gal_splits(len(X))[0]


def _problem(name: str, train: np.ndarray, test: np.ndarray, noise_precision: float) -> Problem:
    x, y = (torch.tensor(values, dtype=torch.float32) for values in TABLES[name]())
    y = y[:, None]
    center_x, unit_x, center_y, unit_y = x[train].mean(0), x[train].std(0), y[train].mean(0), y[train].std(0)
    x, y = (x - center_x) / unit_x, (y - center_y) / unit_y
    return Problem(
        x=x[train],
        y=y[train],
        x_test=x[test],
        y_test=y[test],
        likelihood=Gaussian(noise_precision=noise_precision),
        network=lambda: nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)),
        unit=unit_y.item(),
        center=center_y.item(),
    )
