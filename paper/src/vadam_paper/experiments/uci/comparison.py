"""How two columns of Table 1 compare: means with standard errors, paired t-tests, the distance to the paper's numbers."""

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
"""In the order of the paper's table."""
METRICS = {"rmse": "RMSE", "joint_log_likelihood": "joint log-likelihood", "log_likelihood": "log-likelihood"}
SIGNIFICANT = 0.01
ROUNDING = 0.01 / math.sqrt(12)
"""Standard deviation of what the paper's two decimals leave open."""


class Mean(NamedTuple):
    """A mean over splits and its standard error, as the authors compute it: the population's deviation over √n."""

    mean: float
    error: float

    def __str__(self) -> str:
        if not math.isfinite(self.mean):
            return "diverged"
        digits = 4 if abs(self.mean) < 0.2 else 2
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


def values(run: Recorded, method: str, name: str, metric: str) -> np.ndarray | None:
    """One number for each split; None where the cell has not been run."""
    cell = f"{method}-{name}"
    return np.asarray(run[cell][metric], dtype=float) if cell in run else None


def mean(numbers: Sequence[float | None] | np.ndarray) -> Mean:
    """Of numbers as they are recorded, where None stands for one that is not finite."""
    found = np.asarray(numbers, dtype=float)
    return Mean(float(found.mean()), float(found.std() / math.sqrt(len(found))))


def paper(method: str, name: str, metric: str) -> Mean | None:
    """The authors print the joint log-likelihood for their methods, Gal the pointwise one for his."""
    printed = PAPER[name]["rmse" if metric == "rmse" else "log_likelihood"].get(method)
    theirs = {"rmse", "log_likelihood"} if method == "mc-dropout" else {"rmse", "joint_log_likelihood"}
    return Mean(*printed) if printed and metric in theirs else None


def distance(ours: Mean, papers: Mean) -> float:
    """Ours minus the paper's, in combined standard errors; what rounding hides counts as error."""
    return (ours.mean - papers.mean) / math.sqrt(ours.error**2 + papers.error**2 + ROUNDING**2)


class Comparison(NamedTuple):
    """``gain`` > 0 where the first is better; ``p`` of the paired t-test."""

    gain: float
    p: float

    @property
    def sign(self) -> int:
        """1 if the first is better, −1 if the second is, 0 if the test cannot tell."""
        return int(np.sign(self.gain)) if self.p <= SIGNIFICANT else 0


def compare(run: Recorded, first: str, second: str, name: str, metric: str) -> Comparison | None:
    a, b = values(run, first, name, metric), values(run, second, name, metric)
    if a is None or b is None:
        return None
    whole = [bool(np.isfinite(scores).all()) for scores in (a, b)]
    if whole[0] != whole[1]:  # who diverges on a split has lost
        return Comparison(math.inf if whole[0] else -math.inf, 0.0)
    return paired(b - a if metric == "rmse" else a - b)


def apart(run: Recorded, first: str, second: str, sets: Sequence[str], metric: str) -> Interval:
    """How far apart the means over the splits are, on average over the sets: RMSEs in logarithms, log-likelihoods in nats.

    With a 95 % bootstrap interval over the splits of each set; infinite where one diverged.
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
    """The t-test on differences split by split; scipy's ``ttest_rel`` of two columns."""
    try:
        from scipy import stats
    except ImportError as error:
        raise ExperimentError('The t-tests of Table 1 need scipy: pip install "vadam[tune]".') from error
    gain = float(np.mean(gains))
    if not np.isfinite(gains).all() or np.ptp(gains) == 0:
        return Comparison(gain, 1.0)
    return Comparison(gain, float(stats.ttest_1samp(gains, 0.0).pvalue))


def better(comparison: Comparison, first: str, second: str) -> str:
    """The bold face of the table: the better one, or both."""
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
