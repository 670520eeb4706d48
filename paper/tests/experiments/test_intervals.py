"""Intervals and tests for few values, against scipy's own."""

import numpy as np
import pytest

pytest.importorskip("scipy", reason="scipy is not installed")

from scipy import stats

from vadam_paper.experiments.intervals import Interval, fisher_p_value, student, welch
from vadam_paper.experiments.tables import mean_and_deviation


def test_welch() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 3, 5), rng.normal(0, 1, 7)
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert welch(a, b) == pytest.approx((a.mean() - b.mean(), interval.low, interval.high))
    assert welch([1.0], b)[1:] == (-np.inf, np.inf)
    assert welch([2.0, 2.0], [1.0, 1.0]) == (1.0, 1.0, 1.0)


def test_student() -> None:
    a = np.random.default_rng(1).normal(1, 3, 6)
    interval = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    assert student(a) == pytest.approx((a.mean(), interval.low, interval.high))


def test_more_often() -> None:
    """For 5 of 5 against 0 of 5 the p-value is 1/252: one of 252 ways to choose five."""
    assert fisher_p_value([True] * 5, [False] * 5) == pytest.approx(1 / 252)
    assert fisher_p_value([True] * 3 + [False] * 2, [True] * 2 + [False] * 3) > 0.3


def test_differences_show_their_sign() -> None:
    assert Interval(-0.5, -1.25, 0.25).signed(2) == "−0.50 [−1.25, +0.25]"
    assert student([1.5]).signed(1) == "+1.5"


def test_means_show_their_deviation() -> None:
    assert mean_and_deviation([1.0, 2.0, 3.0], 2) == "2.00 ± 1.00"
    assert mean_and_deviation([-1.0], 1) == "−1.0"
    assert mean_and_deviation([np.nan, np.nan], 1) == "–"
