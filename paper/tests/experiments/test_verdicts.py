"""Verdicts from intervals against margins; statistics that they rest on, against scipy and by simulation."""

import numpy as np
import pytest
from scipy import stats

from vadam_paper.experiments.intervals import (
    Interval,
    Summary,
    difference,
    interval,
    pitman_morgan,
    ratio,
    ratio_of_boxes,
    share,
)
from vadam_paper.experiments.verdicts import (
    Verdict,
    above,
    below,
    differs,
    every,
    exactly,
    more_seeds,
    trials_needed,
    within,
)

YES, NO, MAYBE, NONE = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNDECIDED, Verdict.NOT_RUN


def around(estimate: float, half: float = 1.0) -> Interval:
    return Interval(estimate, estimate - half, estimate + half)


@pytest.mark.parametrize(("estimate", "verdict"), [(1.5, YES), (0.5, MAYBE), (-0.5, MAYBE), (-1.5, NO)])
def test_an_interval_is_on_one_side_of_the_margin_or_open(estimate: float, verdict: Verdict) -> None:
    assert above(around(estimate)) == verdict
    assert above(around(estimate + 7), 7) == verdict
    assert below(around(-estimate)) == verdict


def test_closeness_and_difference() -> None:
    for sign in (1, -1):
        assert within(around(sign * 0.5), 2) == YES
        assert within(around(sign * 1.5), 2) == MAYBE
        assert within(around(sign * 3.5), 2) == NO
        assert differs(around(sign * 3.5), 2) == YES
        assert differs(around(sign * 1.5), 2) == MAYBE
        assert differs(around(sign * 0.5), 2) == NO
    assert within(Interval(0.0, float("-inf"), float("inf")), 2) == MAYBE


def test_one_failure_contradicts_a_conjunction_and_one_open_question_leaves_it_open() -> None:
    assert every(YES, YES) == YES
    assert every(YES, MAYBE) == MAYBE
    assert every(MAYBE, NO, YES) == NO
    assert every(YES, NONE) == NONE
    assert every() == NONE
    assert (exactly(True), exactly(False)) == (YES, NO)


def test_the_pitman_morgan_interval_excludes_one_where_the_test_rejects() -> None:
    """The test: the correlation of sums and differences of the pairs, by scipy's p-value."""
    rng = np.random.default_rng(0)
    rejected = []
    for scale in np.linspace(1.0, 2.0, 40):
        shared = rng.normal(size=20)
        a, b = scale * (shared + 0.5 * rng.normal(size=20)), shared + 0.5 * rng.normal(size=20)
        found = pitman_morgan(a, b)
        p = stats.pearsonr(a + b, a - b).pvalue
        assert (found.low > 1 or found.high < 1) == (p < 0.05)
        assert found.low < found.estimate < found.high
        rejected.append(p < 0.05)
    assert 5 < sum(rejected) < 35


def test_pairs_decide_what_marginal_intervals_leave_open() -> None:
    rng = np.random.default_rng(1)
    shared = rng.normal(size=20)
    a, b = 1.3 * shared + 0.1 * rng.normal(size=20), shared
    assert above(pitman_morgan(a, b), 1.0) == YES
    marginal = interval(list(a), statistic=lambda x, axis=-1: np.std(x, axis=axis, ddof=1))
    assert marginal.low < np.std(b, ddof=1)


def test_shares_are_wilsons() -> None:
    for successes, trials in ((0, 5), (3, 5), (59, 961)):
        theirs = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
        assert share(successes, trials) == pytest.approx((successes / trials, theirs.low, theirs.high))


def test_a_box_stands_for_values_that_are_not_published() -> None:
    """The interval from the quartiles covers the median of normal values in about 95 % of the samples: 92 to 97 %."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(2000, 20))
    low, middle, high = np.quantile(samples, [0.25, 0.5, 0.75], axis=1, method="hazen")
    boxes = [Summary(m, a, b, 20) for m, a, b in zip(middle, low, high, strict=True)]
    covered = np.mean([interval(box).low < 0 < interval(box).high for box in boxes])
    assert 0.92 < covered < 0.97
    one, two = Summary(2.0, 1.8, 2.2, 20), Summary(1.0, 0.9, 1.1, 20)
    gap = difference(one, two, paired=True)
    assert gap.estimate == 1.0
    assert gap.high - 1.0 == pytest.approx(1.821 * np.hypot(0.4, 0.2) / np.sqrt(20), rel=1e-3)
    assert ratio(one, two, paired=True).estimate == 2.0
    assert ratio([2.0, 4.0], [1.0, 2.0], paired=True) == pytest.approx((2.0, 2.0, 2.0))


def test_spreads_of_two_boxes() -> None:
    """The interval covers the true ratio, 1, for about 95 % of the pairs of boxes of 20 normal values: 92 to 97 %."""
    samples = np.random.default_rng(0).normal(size=(2, 2000, 20))
    low, high = np.quantile(samples, [0.25, 0.75], axis=2, method="hazen")
    one, two = ([Summary(0.0, *ends, 20) for ends in zip(a, b, strict=True)] for a, b in zip(low, high, strict=True))
    found = [ratio_of_boxes(a, b) for a, b in zip(one, two, strict=True)]
    assert 0.92 < np.mean([gap.low < 1 < gap.high for gap in found]) < 0.97
    wide = ratio_of_boxes(Summary(0.0, -2.0, 2.0, 20), Summary(0.0, -1.0, 1.0, 20))
    assert wide.estimate == 2.0


def test_one_value_has_no_interval() -> None:
    assert str(interval([1.5])) == "1.5 (no interval)"
    assert above(difference([3.0], [1.0], paired=True)) == MAYBE


def test_trials_needed_grow_as_the_difference_shrinks() -> None:
    assert trials_needed(around(0.9), 5) == 9
    assert trials_needed(around(0.3), 5) == 59
    assert trials_needed(around(0.9 + 7), 5, margin=7) == 9
    assert trials_needed(around(0.0), 5) is None
    assert trials_needed(around(0.001), 5) is None
    assert trials_needed(Interval(1.0, float("-inf"), float("inf")), 5) is None


def test_the_spread_of_one_difference_replaces_the_width_of_the_interval() -> None:
    """The width of an interval with 100 and 5 trials says little of a difference of one and one."""
    spread = float(np.sqrt(5) / stats.t.ppf(0.975, 4))
    assert trials_needed(around(0.9), 5, spread=spread) == trials_needed(around(0.9), 5) == 9
    assert trials_needed(around(0.9), 5, spread=2 * spread) == trials_needed(around(0.9, half=2.0), 5) == 28


def test_more_seeds_decide_the_most_open_difference() -> None:
    decided, hard = around(2.0), around(0.3)
    assert more_seeds([decided], 5) == ""
    assert more_seeds([decided, around(0.9), hard], 5) == "59 seeds decide it with a probability of 80 %, 54 more."
    assert "54 more (at most 1.5 processor hours)" in more_seeds([hard], 5, seconds_a_seed=100)
    assert more_seeds([around(7.3)], 5, margin=7) == more_seeds([hard], 5)
    assert more_seeds([hard, around(0.0)], 5).startswith("No number of seeds up to 1,000")
