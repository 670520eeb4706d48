"""Boston and Concrete, the first of the published splits: a ReLU network with 50 hidden units on standardised columns.

The precision of the noise is that of MAP-Adam's errors on a fifth of the training rows, after training on the others;
all methods use it. The test rows are looked at once, by the finished methods.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from vadam import Gaussian, data, metrics
from vadam.demo.methods import METHODS
from vadam.demo.regression import Learned, Problem, Tell, learn

TABLES = {"boston": data.boston, "concrete": data.concrete}
LEVELS = np.arange(0.1, 1.0, 0.1)
HIDDEN = 50
NOISE_AT_FIRST = 10.0  # while the noise is still being measured


@dataclass(frozen=True)
class Intervals:
    """Test rows in the units of the target; ``covered`` [K] is the share of them in the interval of each level."""

    actual: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    covered: np.ndarray


def measure_noise(name: str, steps: int, tell: Tell) -> float:
    """The precision of the noise, in units of the standardised target."""
    train, _ = _split(name)
    fifth = len(train) // 5
    held_out = _problem(name, train[:-fifth], train[-fifth:], NOISE_AT_FIRST)
    errors = learn(held_out, METHODS["MAP-Adam"], steps, tell).predict(held_out.x_test)
    return float(1 / metrics.rmse(errors.mean, held_out.y_test) ** 2)


def problem(name: str, noise_precision: float) -> Problem:
    train, test = _split(name)
    return _problem(name, train, test, noise_precision)


def intervals(problem: Problem, learned: Learned) -> Intervals:
    prediction = learned.predict(problem.x_test)
    low, high = prediction.interval(0.9)
    covered = [float(metrics.coverage(*prediction.interval(float(level)), problem.y_test)) for level in LEVELS]
    actual, mean, lower, upper = (
        (problem.unit * values + problem.center).flatten().numpy()
        for values in (problem.y_test, prediction.mean, low, high)
    )
    return Intervals(actual, mean, lower, upper, np.array(covered))


def check() -> None:
    """Say before the training, not in the midst of it, that the tables are not there."""
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
