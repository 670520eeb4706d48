"""Metrics against scikit-learn, scipy and sums done by hand."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logsumexp
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score, root_mean_squared_error

from vadam import metrics


def some_classes(n=200, C=4):
    probs = (2 * torch.randn(n, C, dtype=torch.float64)).softmax(-1)
    return probs, torch.randint(C, (n,))


def test_rmse():
    a, y = torch.randn(50, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    assert metrics.rmse(a, y).item() == pytest.approx(root_mean_squared_error(y, a))
    assert metrics.rmse(a[:, None], y) == metrics.rmse(a, y)
    with pytest.raises(ValueError, match="do not fit"):
        metrics.rmse(a[:, None].expand(-1, 2), y)


def test_log_likelihoods():
    table = -50 * torch.rand(7, 20, dtype=torch.float64)
    pointwise = np.mean(logsumexp(table.numpy(), axis=0) - math.log(7))
    joint = (logsumexp(table.numpy().sum(1)) - math.log(7)) / 20
    assert metrics.log_likelihood(table).item() == pytest.approx(pointwise, rel=1e-12)
    assert metrics.joint_log_likelihood(table).item() == pytest.approx(joint, rel=1e-12)
    assert metrics.nll(table) == -metrics.log_likelihood(table)
    single = table[:1]
    torch.testing.assert_close(metrics.joint_log_likelihood(single), metrics.log_likelihood(single))


def test_nll_is_the_log_loss():
    probs, y = some_classes()
    table = probs.log()[torch.arange(200), y][None]
    assert metrics.nll(table).item() == pytest.approx(log_loss(y, probs))


def test_brier_and_accuracy():
    probs, y = some_classes()
    assert metrics.brier(probs, y).item() == pytest.approx(brier_score_loss(y, probs, scale_by_half=False))
    assert metrics.accuracy(probs, y).item() == pytest.approx((probs.argmax(1) == y).double().mean().item())
    p, y = torch.rand(100, dtype=torch.float64), torch.randint(2, (100,))
    assert metrics.brier(p, y).item() == pytest.approx(brier_score_loss(y, p))
    two = torch.stack([1 - p, p], 1)
    torch.testing.assert_close(metrics.brier(two, y), 2 * metrics.brier(p, y))
    torch.testing.assert_close(metrics.accuracy(two, y), metrics.accuracy(p, y))


def test_ece_by_hand():
    # confidences 0.95 (right) and 0.85 (wrong) are in (0.8, 1], 0.65 (right) in (0.6, 0.8], 0.60 (wrong) in (0.4, 0.6]
    p = torch.tensor([0.65, 0.95, 0.40, 0.15], dtype=torch.float64)
    y = torch.tensor([1, 1, 1, 1])
    top = abs((0.95 + 0.85) - 1)
    middle, low = abs(0.65 - 1), abs(0.60 - 0)
    assert metrics.ece(p, y, bins=5).item() == pytest.approx((top + middle + low) / 4)
    # two groups of two, by confidence: 0.60 and 0.65, both right, then 0.85 (wrong) and 0.95 (right)
    p = torch.tensor([0.65, 0.95, 0.15, 0.60], dtype=torch.float64)
    assert metrics.adaptive_ece(p, y, bins=2).item() == pytest.approx((abs(1.25 - 2) + abs(1.80 - 1)) / 4)


def test_the_order_of_rows_with_one_confidence_does_not_matter():
    p, y = torch.tensor([0.75] * 6 + [1.0] * 6), torch.tensor([1, 1, 1, 0, 0, 0] + [1] * 6)
    for rows in (torch.arange(12), torch.arange(11, -1, -1)):
        assert metrics.adaptive_ece(p[rows], y[rows], bins=4).item() == pytest.approx(0.125)


@pytest.mark.parametrize("ece", [metrics.ece, metrics.adaptive_ece])
def test_ece_of_calibrated_and_of_overconfident_predictions(ece):
    """n = 20,000 in 15 bins: a calibrated bin of n/15 has a gap of about √(¼ · 15/n) = 0.014 at most."""
    p = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = (torch.rand(20_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) < p).long()
    assert ece(p, y) < 0.014
    certain = (p > 0.5).double()  # right in three of four cases
    assert ece(certain, y).item() == pytest.approx(0.25, abs=0.01)
    everything_right = torch.ones(10)
    assert ece(everything_right, everything_right.long()) == 0


def test_coverage_counts_the_ends():
    lower, upper = torch.tensor([0.0, 0.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, 1.0, 1.0])
    assert metrics.coverage(lower, upper, torch.tensor([0.0, 1.0, 1.1, -0.1])) == 0.5
    assert metrics.coverage(lower[:, None], upper[:, None], torch.tensor([0.5, 0.5, 0.5, 2.0])) == 0.75


@pytest.mark.parametrize("decimals", [1, 8])
def test_auroc_with_and_without_ties(decimals):
    score, y = torch.rand(300, dtype=torch.float64).round(decimals=decimals), torch.randint(2, (300,))
    assert metrics.auroc(score, y).item() == pytest.approx(roc_auc_score(y, score), rel=1e-12)
    assert metrics.auroc(score, y.bool()) == metrics.auroc(score, y)
    assert metrics.auroc(score, y[:, None]) == metrics.auroc(score[:, None], y) == metrics.auroc(score, y)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: metrics.auroc(torch.rand(3), torch.ones(3)), "3 positives and 0 negatives"),
        (lambda: metrics.auroc(torch.rand(3, 2), torch.ones(3)), "targets of shape [3] do not fit"),
        (lambda: metrics.nll(torch.randn(3)), "shape [3] are not [samples, targets]"),
        (lambda: metrics.joint_log_likelihood(torch.randn(4, 3, 1)), "shape [4, 3, 1] are not [samples, targets]"),
        (lambda: metrics.ece(torch.rand(3, 2), torch.zeros(4)), "labels of shape [4]"),
        (lambda: metrics.accuracy(torch.rand(3, 2, 2), torch.zeros(3)), "probabilities of shape [3, 2, 2]"),
        (lambda: metrics.brier(torch.rand(3, 1), torch.zeros(3)), "probabilities of shape [3, 1]"),
        (lambda: metrics.brier(torch.rand(3), torch.zeros(4)), "targets of shape [4]"),
        (lambda: metrics.brier(torch.rand(3), torch.tensor([-1, 1, 1])), "y holds -1: give whole numbers from 0 to 1"),
        (lambda: metrics.accuracy(torch.rand(3), torch.tensor([0.0, math.nan, 1.0])), "y holds nan"),
        (lambda: metrics.ece(torch.rand(3, 2), torch.tensor([0, 1, 2])), "y holds 2: give whole numbers from 0 to 1"),
        (lambda: metrics.auroc(torch.rand(3), torch.tensor([0, 1, 2])), "y holds 2: give whole numbers from 0 to 1"),
        (lambda: metrics.ece(3 + torch.rand(3, 2), torch.ones(3)), "no probability: of logits take softmax"),
        (lambda: metrics.accuracy(3 + torch.rand(3), torch.ones(3)), "no probability: of logits take softmax"),
    ],
)
def test_wrong_use_is_explained(act, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        act()
    assert message in str(error.value)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float16, torch.bfloat16])
def test_numbers_of_every_type_count_alike(dtype):
    """Whole numbers cannot hold a mean, and half precision cannot count to 10,000."""
    score, y = torch.randint(4, (10_000,)).to(dtype), torch.randint(2, (10_000,))
    pairs = [
        (metrics.auroc(score, y), metrics.auroc(score.double(), y)),
        (metrics.aurc(score, y), metrics.aurc(score.double(), y)),
        (metrics.rmse(score, y), metrics.rmse(score.double(), y)),
        (metrics.coverage(score, score + 1, y), metrics.coverage(score.double(), score.double() + 1, y)),
        (metrics.ece((score > 1).to(dtype), y), metrics.ece((score > 1).double(), y)),
        (metrics.brier((score > 1).to(dtype), y.to(dtype)), metrics.brier((score > 1).double(), y)),
    ]
    for found, expected in pairs:
        assert found.item() == pytest.approx(expected.item(), rel=1e-5)


def test_logits_have_the_accuracy_of_their_probabilities():
    logits, y = torch.randn(50, 3), torch.randint(3, (50,))
    assert metrics.accuracy(logits, y) == metrics.accuracy(logits.softmax(-1), y)


def test_ends_of_intervals_in_two_shapes_are_no_table():
    low, y = torch.randn(50), torch.randn(50)
    for metric in (metrics.coverage, metrics.interval_score):
        assert metric(low[:, None], low + 1, y) == metric(low, low + 1, y)
    y[3] = math.nan
    assert metrics.coverage(low, low + 1, y).isnan()


def test_arrays_lists_and_columns_are_as_good_as_tensors():
    """The estimators return arrays, and tables hold targets as columns."""
    rng = np.random.default_rng(0)
    low, y = rng.normal(size=40), rng.normal(size=40)
    probs, labels = rng.dirichlet(np.ones(3), 40), rng.integers(3, size=40)
    wrong, doubt = (probs.argmax(1) != labels).astype(float), rng.random(40)
    cases = [
        (metrics.rmse, (low, y)),
        (metrics.crps, (rng.normal(size=(5, 40)), y)),
        (metrics.coverage, (low, low + 2, y)),
        (metrics.interval_score, (low, low + 2, y)),
        (metrics.calibration_error, (rng.random(40),)),
        (metrics.log_likelihood, (rng.normal(size=(5, 40)),)),
        (metrics.accuracy, (probs, labels)),
        (metrics.brier, (probs, labels)),
        (metrics.ece, (probs, labels)),
        (metrics.auroc, (doubt, wrong)),
        (metrics.aurc, (doubt, wrong)),
        (lambda *args: metrics.coverage_at_risk(*args, risk=0.6), (doubt, wrong)),
        (lambda *args: metrics.selective_accuracy(*args, coverage=0.5), (doubt, 1 - wrong)),
    ]
    for metric, arrays in cases:
        expected = metric(*map(torch.tensor, arrays))
        for convert in (lambda values: values, pd.DataFrame if arrays[0].ndim > 1 else pd.Series, np.ndarray.tolist):
            assert metric(convert(arrays[0]), *arrays[1:]) == pytest.approx(expected.item(), rel=1e-12)
        assert metric(arrays[0], *map(np.ndarray.tolist, arrays[1:])) == pytest.approx(expected.item(), rel=1e-12)


def test_bins_of_millions_of_rows_do_not_round():
    """Sums in single precision would lose the ones that are added to 2²⁴."""
    probs = torch.full((17_000_000,), 0.99)
    y = torch.ones(len(probs), dtype=torch.uint8)
    confidence, accuracy, count = metrics.reliability_curve(probs, y)
    assert count.tolist() == [17_000_000]
    assert confidence.item() == pytest.approx(0.99, abs=1e-6)
    assert accuracy.item() == 1


def test_ties_of_millions_of_rows_do_not_round():
    correct = torch.ones(20_000_000)
    correct[:200_000] = 0
    same = torch.zeros(len(correct))
    assert metrics.selective_accuracy(same, correct, 1.0).item() == pytest.approx(0.99, abs=1e-6)
    assert metrics.aurc(same, 1 - correct).item() == pytest.approx(0.01, rel=1e-5)


@pytest.mark.parametrize("bins", [0, -1, 2.5, True, None])
@pytest.mark.parametrize("metric", [metrics.ece, metrics.adaptive_ece, metrics.reliability_curve])
def test_bins_must_be_a_whole_number_from_one(metric, bins):
    with pytest.raises(ValueError, match=f"bins={bins!r} is not valid: give a whole number from 1"):
        metric(torch.eye(2), torch.tensor([0, 1]), bins=bins)


def test_a_negative_standard_deviation_is_refused():
    with pytest.raises(ValueError, match="std holds -1: give standard deviations from 0"):
        metrics.crps(torch.zeros(2, 3), torch.zeros(3), std=-1.0)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", ">f8", ">i4", object])
def test_columns_of_any_numeric_type_are_taken(dtype):
    y = pd.Series([0, 1, 1], dtype=dtype) if dtype is object else np.array([0, 1, 1], dtype=dtype)
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    assert metrics.accuracy(probs, y).item() == pytest.approx(2 / 3)
    assert metrics.rmse([0.0, 1.0, 2.0], y).item() == pytest.approx(1 / math.sqrt(3))
