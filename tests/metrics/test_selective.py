"""Rejection: loops over all thresholds, and over all orders of tied examples."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from vadam import metrics


def slow_aurc(uncertainty: list[float], loss: list[float]) -> float:
    """Return the mean risk of 1, 2, … n answers, averaged over all orders that the uncertainty allows."""
    n, found = len(loss), []
    for order in permutations(range(n)):
        if all(uncertainty[a] <= uncertainty[b] for a, b in pairwise(order)):
            found.append(np.mean([np.mean([loss[i] for i in order[: k + 1]]) for k in range(n)]))
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("uncertainty", "loss"),
    [
        ([0.1, 0.4, 0.2, 0.9], [0.0, 1.0, 0.0, 1.0]),
        ([0.3, 0.3, 0.3, 0.9, 0.1], [1.0, 0.0, 0.0, 1.0, 0.0]),
        ([0.5] * 5, [1.0, 0.0, 2.5, 0.0, 0.0]),
    ],
)
def test_aurc(uncertainty, loss):
    found = metrics.aurc(torch.tensor(uncertainty, dtype=torch.float64), torch.tensor(loss, dtype=torch.float64))
    assert found.item() == pytest.approx(slow_aurc(uncertainty, loss), rel=1e-12)


def test_curve_coverage_and_accuracy_by_hand():
    uncertainty = torch.tensor([0.1, 0.2, 0.2, 0.8, 0.9])
    loss = torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0])
    coverage, risk = metrics.risk_coverage_curve(uncertainty, loss)
    torch.testing.assert_close(coverage, torch.tensor([0.2, 0.6, 0.8, 1.0]))
    torch.testing.assert_close(risk, torch.tensor([0.0, 1 / 3, 1 / 4, 2 / 5]))
    assert metrics.coverage_at_risk(uncertainty, loss, 0.3).item() == pytest.approx(0.8)  # not monotone: 1/3, then 1/4
    assert metrics.coverage_at_risk(uncertainty, loss, 0.1).item() == pytest.approx(0.2)
    assert metrics.coverage_at_risk(uncertainty, torch.ones(5), 0.5) == 0
    correct = loss == 0
    assert metrics.selective_accuracy(uncertainty, correct, 0.2) == 1
    assert metrics.selective_accuracy(uncertainty, correct, 0.6).item() == pytest.approx(2 / 3)
    assert metrics.selective_accuracy(uncertainty, correct, 0.7).item() == pytest.approx(3 / 4)
    assert metrics.selective_accuracy(uncertainty, correct, 1.0).item() == pytest.approx(3 / 5)


def test_a_good_order_is_worth_more_than_a_bad_one():
    loss = torch.rand(500, generator=torch.Generator().manual_seed(0))
    assert metrics.aurc(loss, loss) < metrics.aurc(torch.ones(500), loss) < metrics.aurc(-loss, loss)
    torch.testing.assert_close(metrics.aurc(torch.ones(500), loss), loss.mean())


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: metrics.aurc(torch.rand(3), torch.rand(4)), "losses of shape [4]"),
        (lambda: metrics.aurc(torch.rand(0), torch.rand(0)), "losses of shape [0]"),
        (lambda: metrics.selective_accuracy(torch.rand(3), torch.ones(3), 0.0), "coverage=0.0 is not valid"),
    ],
)
def test_wrong_use_is_explained(act, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        act()
    assert message in str(error.value)


def test_a_share_that_is_a_whole_number_of_examples_but_for_rounding():
    """0.1 + 0.2 is larger than 3/10 in floating point; three of ten examples are meant, and the fourth is wrong."""
    uncertainty = torch.arange(10, dtype=torch.float64)
    correct = uncertainty < 3
    assert metrics.selective_accuracy(uncertainty, correct, 0.1 + 0.2) == 1


def test_examples_without_an_order_are_refused():
    """NaN is sorted as the largest number, so one in the scores would count as the surest positive."""
    score, y = torch.tensor([0.1, torch.nan, 0.9]), torch.tensor([0.0, 1.0, 1.0])
    for metric in (metrics.auroc, metrics.aurc):
        with pytest.raises(ValueError, match="holds NaN, which has no place in the order of examples"):
            metric(score, y)
