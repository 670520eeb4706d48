"""Scores of distributions and intervals against quadrature of their definition, scikit-learn, and expectations by hand."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.metrics import mean_pinball_loss

from vadam import metrics


def by_quadrature(cdf, y: float, low: float, high: float) -> float:
    """Return the definition of the CRPS, ∫ (F(z) − 1[y ≤ z])² dz."""
    below, _ = integrate.quad(lambda z: cdf(z) ** 2, low, y, limit=400, epsabs=1e-10)
    above, _ = integrate.quad(lambda z: (1 - cdf(z)) ** 2, y, high, limit=400, epsabs=1e-10)
    return below + above


@pytest.mark.parametrize("S", [1, 2, 5, 6])
@pytest.mark.parametrize("shared", [True, False])
def test_crps_of_gaussian_mixtures(S, shared):
    rng = np.random.default_rng(S)
    mean, y = rng.normal(0, 2, (S, 3)), rng.normal(0, 2, 3)
    std = np.full((S, 3), 0.7) if shared else rng.uniform(0.2, 2, (S, 3))
    expected = np.mean(
        [by_quadrature(lambda z, i=i: stats.norm.cdf(z, mean[:, i], std[:, i]).mean(), y[i], -25, 25) for i in range(3)]
    )
    given = 0.7 if shared else torch.tensor(std)
    assert metrics.crps(torch.tensor(mean), torch.tensor(y), given).item() == pytest.approx(expected, abs=1e-8)


def test_crps_without_noise_is_that_of_the_draws():
    rng = np.random.default_rng(0)
    draws, y = rng.normal(size=(7, 2)), rng.normal(size=2)
    expected = np.mean(
        [
            np.abs(draws[:, i] - y[i]).mean() - 0.5 * np.abs(draws[:, None, i] - draws[None, :, i]).mean()
            for i in range(2)
        ]
    )
    from_draws = metrics.crps(torch.tensor(draws), torch.tensor(y))
    assert from_draws.item() == pytest.approx(expected, rel=1e-12)
    assert metrics.crps(torch.tensor(draws), torch.tensor(y), std=0.0).item() == pytest.approx(expected, rel=1e-12)
    assert metrics.crps(torch.tensor(draws)[..., None], torch.tensor(y)) == from_draws


def test_crps_of_draws_far_from_zero_does_not_round():
    draws, y = torch.randn(500, 200, generator=torch.Generator().manual_seed(0)) + 1e6, torch.full((200,), 1e6)
    assert metrics.crps(draws, y).item() == pytest.approx(metrics.crps(draws.double(), y.double()).item(), rel=1e-4)


def test_crps_of_many_draws_is_that_of_their_distribution():
    """S = 200,000 draws: the score's own deviation over draws is below 1/√S = 0.0023."""
    draws = torch.randn(200_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.tensor([0.3], dtype=torch.float64)
    exact = metrics.crps(torch.zeros(1, 1, dtype=torch.float64), y, 1.0)
    assert metrics.crps(draws, y).item() == pytest.approx(exact.item(), abs=0.005)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_interval_score_is_a_sum_of_pinball_losses(level):
    rng = np.random.default_rng(0)
    low, y = rng.normal(size=50), rng.normal(size=50)
    high, alpha = low + rng.uniform(0, 2, 50), 1 - level
    pinball = mean_pinball_loss(y, low, alpha=alpha / 2) + mean_pinball_loss(y, high, alpha=1 - alpha / 2)
    score = metrics.interval_score(torch.tensor(low), torch.tensor(high), torch.tensor(y), level)
    assert score.item() == pytest.approx(2 / alpha * pinball, rel=1e-12)
    with pytest.raises(ValueError, match=r"level must be between 0 and 1, e.g. 0.9, got 1.0"):
        metrics.interval_score(torch.tensor(low), torch.tensor(high), torch.tensor(y), 1.0)


def test_calibration_curve():
    pit = torch.tensor([0.1, 0.2, 0.9, 0.95])
    levels, observed = metrics.calibration_curve(pit, torch.tensor([0.15, 0.5, 0.92]))
    assert levels.tolist() == pytest.approx([0.15, 0.5, 0.92])
    assert observed.tolist() == [0.25, 0.5, 0.75]
    assert metrics.calibration_error(pit, levels).item() == pytest.approx((0.10 + 0 + 0.17) / 3)
    uniform = (torch.arange(1000) + 0.5) / 1000
    assert metrics.calibration_error(uniform) < 1e-3
    assert metrics.calibration_error(0.5 + 0 * uniform) > 0.2  # far too wide a prediction


def test_reliability_curve_sums_to_the_calibration_error():
    probs = (2 * torch.randn(300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).softmax(-1)
    y = torch.arange(300) % 3
    confidence, accuracy, count = metrics.reliability_curve(probs, y, bins=10)
    assert count.sum() == 300
    assert (count > 0).all()
    gap = ((accuracy - confidence).abs() * count).sum() / 300
    torch.testing.assert_close(gap, metrics.ece(probs, y, bins=10))
