"""Small statistics for evidence: bootstrap intervals with a fixed seed, and Student's intervals for few values."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from vadam_paper.experiments.contract import ExperimentError

RESAMPLES = 10_000


class Interval(NamedTuple):
    """An estimate with its interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.format(3)

    def shifted(self, by: float) -> "Interval":
        """Return the interval of the quantity plus a constant."""
        return Interval(*(end + by for end in self))

    def signed(self, digits: int) -> str:
        """Return a difference as text: every number with its sign, and no bounds where they are infinite."""
        bounds = f" [{self.low:+.{digits}f}, {self.high:+.{digits}f}]" if np.isfinite(self.high) else ""
        return f"{self.estimate:+.{digits}f}{bounds}".replace("-", "−")

    def format(self, digits: int) -> str:
        if np.isinf(self.low) and np.isfinite(self.estimate):
            return f"{self.estimate:.{digits}g} (no interval)"
        return f"{self.estimate:.{digits}g} [{self.low:.{digits}g}, {self.high:.{digits}g}]"


class Summary(NamedTuple):
    """The centre, quartiles and number of values in a box plot whose values are not published."""

    centre: float
    low: float
    high: float
    n: int

    @property
    def half(self) -> float:
        """Return the half width of a 95 % interval of the median, assuming normal values.

        It is 1.96 √(π/2) σ/√n with σ the deviation.
        """
        return float(1.96 * np.sqrt(np.pi / 2) * self.deviation / np.sqrt(self.n))

    @property
    def deviation(self) -> float:
        """Return the standard deviation of normal values with these quartiles, IQR/1.349."""
        return (self.high - self.low) / 1.349


Sample = Sequence[float] | Summary


def interval(values: Sample, statistic: Callable[..., Any] = np.mean, level: float = 0.95) -> Interval:
    """Return the percentile bootstrap interval of a statistic of independent values.

    For a summary, return the interval of its centre, whatever the statistic. A single value has no bounds.
    """
    if isinstance(values, Summary):
        return Interval(values.centre, values.centre - values.half, values.centre + values.half)
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2:
        return _unbounded(float(statistic(sample)))
    index = np.random.default_rng(0).integers(len(sample), size=(RESAMPLES, len(sample)))
    draws = statistic(sample[index], axis=1)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic(sample)), float(low), float(high))


def difference(
    a: Sample, b: Sample, *, paired: bool, statistic: Callable[..., Any] = np.mean, level: float = 0.95
) -> Interval:
    """Return a statistic (default: the mean) of ``a`` minus that of ``b``; ``paired`` if k-th values share a split.

    Summaries cannot be paired: they count as independent.
    """
    if isinstance(a, Summary) or isinstance(b, Summary):
        (x, *_), (y, *_) = one, two = interval(a, statistic), interval(b, statistic)
        half = float(np.hypot(one.high - one.estimate, two.high - two.estimate))
        return Interval(x - y, x - y - half, x - y + half)
    return compared(a, b, lambda left, right: statistic(left, axis=-1) - statistic(right, axis=-1), paired, level)


def ratio(a: Sample, b: Sample, *, paired: bool, level: float = 0.95) -> Interval:
    """Return mean of ``a`` over mean of ``b``; for summaries, the ratio of their centres."""
    if isinstance(a, Summary) or isinstance(b, Summary):
        one, two = interval(a), interval(b)
        quotient = one.estimate / two.estimate
        relative = np.hypot((one.high - one.estimate) / one.estimate, (two.high - two.estimate) / two.estimate)
        return Interval(quotient, quotient * (1 - float(relative)), quotient * (1 + float(relative)))
    return compared(a, b, lambda left, right: left.mean(-1) / right.mean(-1), paired, level)


def compared(
    a: Sequence[float], b: Sequence[float], statistic: Callable[..., Any], paired: bool, level: float = 0.95
) -> Interval:
    """Return the bootstrap interval of ``statistic(a, b)``, which works along the last axis."""
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    estimate = float(statistic(left, right))
    if min(len(left), len(right)) < 2:
        return _unbounded(estimate)
    rng = np.random.default_rng(0)
    rows = rng.integers(len(left), size=(RESAMPLES, len(left)))
    others = rows if paired else rng.integers(len(right), size=(RESAMPLES, len(right)))
    low, high = np.quantile(statistic(left[rows], right[others]), [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high))


def pitman_morgan(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Interval:
    """Return the standard deviation of ``a`` over that of ``b``, for paired values.

    Its interval excludes 1 where the test rejects. For the ratio ω of the deviations, a/ω + b and a/ω − b are uncorrelated:
    the interval contains all ω whose correlation r passes the t-test (Pitman, 1939; Morgan, 1939).
    """
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    estimate = float(left.std(ddof=1) / right.std(ddof=1))
    if len(left) < 3:
        return _unbounded(estimate)
    r = float(np.corrcoef(left, right)[0, 1])
    t = student_quantile((1 + level) / 2, len(left) - 2)
    k = 1 + 2 * (1 - r**2) * t**2 / (len(left) - 2)
    root = float(np.sqrt(k**2 - 1))
    return Interval(estimate, estimate * float(np.sqrt(k - root)), estimate * float(np.sqrt(k + root)))


def ratio_of_boxes(a: Summary, b: Summary) -> Interval:
    """Return the deviation of ``a`` over that of ``b`` with a 95 % interval, from their quartiles.

    For normal values log IQR has the standard error 1.166/√n. The values of two boxes cannot be paired: they count as independent.
    """
    estimate = a.deviation / b.deviation
    factor = float(np.exp(1.96 * 1.166 * np.sqrt(1 / a.n + 1 / b.n)))
    return Interval(estimate, estimate / factor, estimate * factor)


def share(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Return the fraction of successes with Wilson's interval."""
    z = float(_stats().norm.ppf((1 + level) / 2))
    p, shrink = successes / trials, 1 + z**2 / trials
    middle, half = p + z**2 / (2 * trials), z * float(np.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2)))
    return Interval(p, (middle - half) / shrink, (middle + half) / shrink)


@cache
def student_quantile(level: float, freedom: float) -> float:
    """Return the quantile of Student's distribution."""
    return float(_stats().t.ppf(level, freedom))


def _unbounded(estimate: float) -> Interval:
    return Interval(estimate, float("-inf"), float("inf"))


def welch(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Interval:
    """Return mean of ``a`` minus mean of ``b`` with Welch's interval, for few values; a single value has no bounds."""
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    gap = float(left.mean() - right.mean())
    if min(len(left), len(right)) < 2:
        return Interval(gap, float("-inf"), float("inf"))
    u, v = left.var(ddof=1) / len(left), right.var(ddof=1) / len(right)
    if u + v == 0:
        return Interval(gap, gap, gap)
    half = student_quantile((1 + level) / 2, welch_freedom(a, b)) * float(np.sqrt(u + v))
    return Interval(gap, gap - half, gap + half)


def student(values: "Sequence[float] | np.ndarray", level: float = 0.95) -> Interval:
    """Return Student's interval of a mean of few independent values; a single value has no bounds.

    For few values the bootstrap is too narrow.
    """
    sample = np.asarray(values, dtype=float)
    mean, n = float(sample.mean()), len(sample)
    if n < 2:
        return Interval(mean, float("-inf"), float("inf"))
    half = student_quantile((1 + level) / 2, n - 1) * float(sample.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def fisher_p_value(a: Sequence[bool], b: Sequence[bool]) -> float:
    """Return the p-value of Fisher's exact test that ``a`` is true more often than ``b``."""
    counts = [[sum(found), len(found) - sum(found)] for found in (a, b)]
    return float(_stats().fisher_exact(counts, alternative="greater").pvalue)


def welch_freedom(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the degrees of freedom of Welch's interval (Welch–Satterthwaite)."""
    u, v = (np.var(x, ddof=1) / len(x) for x in (a, b))
    if u + v == 0:
        return float(len(a) + len(b) - 2)
    return float((u + v) ** 2 / (u**2 / (len(a) - 1) + v**2 / (len(b) - 1)))


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise ExperimentError('Tests and intervals for few values need scipy: pip install "vadam[tune]".') from error
    return stats


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the quartiles by Hazen's rule, as in the authors' box plots."""
    low, middle, high = np.quantile(np.asarray(values, dtype=float), [0.25, 0.5, 0.75], method="hazen")
    return float(low), float(middle), float(high)
