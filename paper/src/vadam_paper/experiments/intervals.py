"""Small statistics that evidence is written with: bootstrap intervals, with a fixed seed, and Student's for few values."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vadam_paper.experiments.contract import ExperimentError

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


def welch(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Interval:
    """Mean of ``a`` minus mean of ``b`` with Welch's interval, for few values in two groups; one value has no bounds."""
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    gap = float(left.mean() - right.mean())
    if min(len(left), len(right)) < 2:
        return Interval(gap, float("-inf"), float("inf"))
    u, v = left.var(ddof=1) / len(left), right.var(ddof=1) / len(right)
    if u + v == 0:
        return Interval(gap, gap, gap)
    freedom = (u + v) ** 2 / (u**2 / (len(left) - 1) + v**2 / (len(right) - 1))
    half = float(_stats().t.ppf((1 + level) / 2, freedom) * np.sqrt(u + v))
    return Interval(gap, gap - half, gap + half)


def student(values: "Sequence[float] | np.ndarray", level: float = 0.95) -> Interval:
    """Student's interval of a mean, for few independent values, where resampling is too sure; one value has no bounds."""
    sample = np.asarray(values, dtype=float)
    mean, n = float(sample.mean()), len(sample)
    if n < 2:
        return Interval(mean, float("-inf"), float("inf"))
    half = float(_stats().t.ppf((1 + level) / 2, n - 1) * sample.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def fisher_p_value(a: Sequence[bool], b: Sequence[bool]) -> float:
    """p of Fisher's exact test: that ``a`` is true so much more often than ``b`` by chance."""
    counts = [[sum(found), len(found) - sum(found)] for found in (a, b)]
    return float(_stats().fisher_exact(counts, alternative="greater").pvalue)


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise ExperimentError('Tests and intervals for few values need scipy: pip install "vadam[tune]".') from error
    return stats


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """By Hazen's rule, which is that of the authors' box plots."""
    low, middle, high = np.quantile(np.asarray(values, dtype=float), [0.25, 0.5, 0.75], method="hazen")
    return float(low), float(middle), float(high)
