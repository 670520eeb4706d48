"""A grid posterior of a Gaussian, which is known, and of a logistic regression, by scipy's integration."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from vadam.exact import logistic
from vadam.exact.grid import grid_posterior

MEAN, COVARIANCE = torch.tensor([1.0, -2.0]).double(), torch.tensor([[2.0, 0.6], [0.6, 0.5]]).double()
GAUSSIAN = torch.distributions.MultivariateNormal(MEAN, COVARIANCE)


@pytest.fixture
def gaussian_grid():
    return grid_posterior(lambda w: GAUSSIAN.log_prob(w) + 5, (-10, 12), (-8, 4), points=301, chunk=1000)


def test_moments_and_normaliser(gaussian_grid):
    """A sum over a grid is spectrally accurate for a Gaussian that fits on it: 1e-9."""
    assert gaussian_grid.log_normaliser == pytest.approx(5, abs=1e-9)
    assert gaussian_grid.density.sum() * gaussian_grid.cell_area == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(gaussian_grid.mean, MEAN, rtol=0, atol=1e-9)
    torch.testing.assert_close(gaussian_grid.covariance, COVARIANCE, rtol=0, atol=1e-9)
    torch.testing.assert_close(gaussian_grid.mode, MEAN, rtol=0, atol=0.05)
    at = torch.stack([gaussian_grid.x[140], gaussian_grid.y[160]])
    assert gaussian_grid.density[140, 160].item() == pytest.approx(GAUSSIAN.log_prob(at).exp().item(), rel=1e-9)


def test_levels(gaussian_grid):
    """The region of mass p ends where the density is (1 − p) times its peak; the cells blur it by 1 %."""
    peak = GAUSSIAN.log_prob(MEAN).exp().item()
    levels = gaussian_grid.levels((0.5, 0.95, 0.1))
    assert levels == sorted(levels)
    for level, mass in zip(levels, (0.95, 0.5, 0.1), strict=True):
        assert level == pytest.approx((1 - mass) * peak, rel=0.02)


def test_evidence_of_logistic_regression():
    rng = np.random.default_rng(0)
    X, y = torch.tensor(rng.normal(size=(10, 2))), torch.tensor(rng.choice([-1.0, 1.0], size=10))

    def log_joint(w):
        prior = -0.5 * w.square().sum(1) - math.log(2 * math.pi)
        return torch.nn.functional.logsigmoid(w @ X.T * y).sum(1) + prior

    grid = grid_posterior(log_joint, (-7, 7), (-7, 7))

    def joint(b, a):
        log_prior = -0.5 * (a * a + b * b) - math.log(2 * math.pi)
        return math.exp(log_prior - np.logaddexp(0, -y.numpy() * (X.numpy() @ [a, b])).sum())

    evidence = integrate.dblquad(joint, -7, 7, -7, 7, epsabs=1e-9)[0]
    assert grid.log_normaliser == pytest.approx(math.log(evidence), abs=1e-5)
    assert logistic.full_gaussian(X, y, 1.0).elbo < grid.log_normaliser


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"points": 1}, "points >= 2"),
        ({"x_range": (1, 0)}, "ascending ranges"),
        ({"log_density": lambda w: w}, "one number"),
        ({"log_density": lambda w: w[:, 0] * math.nan}, "not NaN"),
    ],
)
def test_bad_input(arguments, message):
    defaults = {"log_density": lambda w: -w.square().sum(1), "x_range": (-1, 1), "y_range": (-1, 1), "points": 5}
    with pytest.raises(ValueError, match=message):
        grid_posterior(**(defaults | arguments))


def test_bad_masses(gaussian_grid):
    with pytest.raises(ValueError, match="between 0 and 1"):
        gaussian_grid.levels((1.5,))
