"""Small statistics that evidence is written with: bootstrap intervals, with a fixed seed, and Student's for few values."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vadam.experiments.contract import ExperimentError

RESAMPLES = 10_000


class Interval(NamedTuple):
    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.format(3)

    def format(self, digits: int) -> str:
        return f"{self.estimate:.{digits}g} [{self.low:.{digits}g}, {self.high:.{digits}g}]"


def interval(values: Sequence[float], statistic: Callable[..., Any] = np.mean, level: float = 0.95) -> Interval:
    """Percentile bootstrap interval of a statistic of independent values."""
    sample = np.asarray(values, dtype=float)
    index = np.random.default_rng(0).integers(len(sample), size=(RESAMPLES, len(sample)))
    draws = statistic(sample[index], axis=1)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic(sample)), float(low), float(high))


def difference(a: Sequence[float], b: Sequence[float], *, paired: bool, level: float = 0.95) -> Interval:
    """Mean of ``a`` minus mean of ``b``; ``paired`` where the k-th value of both comes from the same split."""
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if paired:
        return interval(list(left - right), level=level)
    rng = np.random.default_rng(0)
    draws = left[rng.integers(len(left), size=(RESAMPLES, len(left)))].mean(1)
    draws = draws - right[rng.integers(len(right), size=(RESAMPLES, len(right)))].mean(1)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(left.mean() - right.mean()), float(low), float(high))


def student(values: "Sequence[float] | np.ndarray", level: float = 0.95) -> Interval:
    """Student's interval of a mean, for few independent values, where resampling is too sure; one value has no bounds."""
    try:
        from scipy import stats
    except ImportError as error:
        raise ExperimentError('Student\'s intervals need scipy: pip install "vadam[tune]".') from error
    sample = np.asarray(values, dtype=float)
    mean, n = float(sample.mean()), len(sample)
    if n < 2:
        return Interval(mean, float("-inf"), float("inf"))
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * sample.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """By Hazen's rule, which is that of the authors' box plots."""
    low, middle, high = np.quantile(np.asarray(values, dtype=float), [0.25, 0.5, 0.75], method="hazen")
    return float(low), float(middle), float(high)
