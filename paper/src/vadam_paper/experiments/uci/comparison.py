"""Compare two columns of Table 1: means with standard errors, paired t-tests, the distance to the paper's numbers."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.intervals import RESAMPLES, Interval
from vadam_paper.experiments.results import Recorded

PAPER = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
NAMES = {"vadam": "Vadam", "bbvi": "BBVI", "vogn": "VOGN", "vprop": "Vprop", "mc-dropout": "MC-Dropout"}
SETS = tuple(key for key in PAPER if key != "source")
"""Data sets in the order of the paper's table."""
METRICS = {"rmse": "RMSE", "joint_log_likelihood": "joint log-likelihood", "log_likelihood": "log-likelihood"}
SIGNIFICANT = 0.01
ROUNDING = 0.01 / math.sqrt(12)
"""Standard deviation of the rounding error of the paper's two decimals."""


class Mean(NamedTuple):
    """A mean over splits and its standard error, the population deviation over √n, as the authors compute it."""

    mean: float
    error: float

    def __str__(self) -> str:
        if not math.isfinite(self.mean):
            return "diverged"
        digits = 4 if abs(self.mean) < 0.2 else 2
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


def values(run: Recorded, method: str, name: str, metric: str) -> np.ndarray | None:
    """Return one number for each split, or None if the cell has not been run."""
    cell = f"{method}-{name}"
    return np.asarray(run[cell][metric], dtype=float) if cell in run else None


def mean(numbers: Sequence[float | None] | np.ndarray) -> Mean:
    """Return mean and standard error of recorded numbers; None stands for a number that is not finite."""
    found = np.asarray(numbers, dtype=float)
    return Mean(float(found.mean()), float(found.std() / math.sqrt(len(found))))


def paper(method: str, name: str, metric: str) -> Mean | None:
    """Return the paper's number, or None.

    The authors print the joint log-likelihood for their methods, and Gal's pointwise one for MC-Dropout.
    """
    printed = PAPER[name]["rmse" if metric == "rmse" else "log_likelihood"].get(method)
    theirs = {"rmse", "log_likelihood"} if method == "mc-dropout" else {"rmse", "joint_log_likelihood"}
    return Mean(*printed) if printed and metric in theirs else None


def distance(ours: Mean, papers: Mean) -> float:
    """Return ours minus the paper's number in combined standard errors, including the paper's rounding."""
    return (ours.mean - papers.mean) / math.sqrt(ours.error**2 + papers.error**2 + ROUNDING**2)


class Comparison(NamedTuple):
    """The result of a paired t-test: ``gain`` > 0 if the first is better, and its p-value."""

    gain: float
    p: float

    @property
    def sign(self) -> int:
        """Return 1 if the first is better, −1 if the second is, 0 if the test cannot tell."""
        return int(np.sign(self.gain)) if self.p <= SIGNIFICANT else 0


def compare(run: Recorded, first: str, second: str, name: str, metric: str) -> Comparison | None:
    """Compare two methods on the splits that both have, the first ones."""
    a, b = values(run, first, name, metric), values(run, second, name, metric)
    if a is None or b is None:
        return None
    common = min(len(a), len(b))
    a, b = a[:common], b[:common]
    whole = [bool(np.isfinite(scores).all()) for scores in (a, b)]
    if whole[0] != whole[1]:  # a method that diverges on a split has lost
        return Comparison(math.inf if whole[0] else -math.inf, 0.0)
    return paired(b - a if metric == "rmse" else a - b)


def apart(run: Recorded, first: str, second: str, sets: Sequence[str], metric: str) -> Interval:
    """Return the distance of the means over splits, averaged over the sets, with a 95 % bootstrap interval.

    RMSEs are compared in logarithms, log-likelihoods in nats. The interval resamples the splits of each set. It is
    infinite if a method diverged.
    """
    rng = np.random.default_rng(0)
    gaps = np.zeros(1 + RESAMPLES)
    for name in sets:
        a, b = values(run, first, name, metric), values(run, second, name, metric)
        assert a is not None
        assert b is not None
        drawn = np.vstack([np.arange(len(a)), rng.integers(len(a), size=(RESAMPLES, len(a)))])
        left, right = a[drawn].mean(1), b[drawn].mean(1)
        gaps += np.abs(np.log(left / right) if metric == "rmse" else left - right) / len(sets)
    if not np.isfinite(gaps[0]):
        return Interval(math.inf, math.inf, math.inf)
    low, high = np.nanquantile(gaps[1:], [0.025, 0.975])
    return Interval(float(gaps[0]), float(low), float(high))


def paired(gains: np.ndarray) -> Comparison:
    """Run the t-test on differences per split; it equals scipy's ``ttest_rel`` of two columns."""
    try:
        from scipy import stats
    except ImportError as error:
        raise ExperimentError('The t-tests of Table 1 need scipy: pip install "vadam[tune]".') from error
    gain = float(np.mean(gains))
    if not np.isfinite(gains).all() or np.ptp(gains) == 0:
        return Comparison(gain, 1.0)
    return Comparison(gain, float(stats.ttest_1samp(gains, 0.0).pvalue))


def better(comparison: Comparison, first: str, second: str) -> str:
    """Return the bold entry of the table: the better method, or both."""
    return {1: NAMES[first], -1: NAMES[second], 0: "both"}[comparison.sign]


def printed_sign(name: str, metric: str) -> int:
    """Return 1 where the paper's table prints a better mean for Vadam, −1 for BBVI, 0 for the same."""
    vadam, bbvi = (paper(method, name, metric) for method in ("vadam", "bbvi"))
    assert vadam is not None
    assert bbvi is not None
    gain = bbvi.mean - vadam.mean if metric == "rmse" else vadam.mean - bbvi.mean
    return int(np.sign(round(gain, 9)))


def bold(name: str, metric: str) -> str:
    found: list[Any] = PAPER[name]["bold"]["rmse" if metric == "rmse" else "log_likelihood"]
    return "both" if len(found) == 2 else NAMES[found[0]]
