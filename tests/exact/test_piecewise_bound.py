"""Marlin's bound: above the softplus, within its error; its optimum below the exact ELBO, and close."""

import numpy as np
import pytest
import torch

from exact import piecewise_bound
from vadam.exact import logistic
from vadam.exact.expectations import softplus_expectations


def value_of(bound, z):
    inside = (bound.lower < z[:, None]) & (z[:, None] <= bound.upper)
    assert (inside.sum(1) == 1).all()
    pieces = inside.double().argmax(1)
    return bound.quadratic[pieces] * z**2 + bound.linear[pieces] * z + bound.constant[pieces]


@pytest.mark.parametrize("pieces", [4, 6, 10, 20])
def test_bound(pieces):
    bound = piecewise_bound.softplus_bound(pieces)
    assert len(bound.lower) == pieces
    z = torch.linspace(-40, 40, 400_001, dtype=torch.float64)
    error = value_of(bound, z) - torch.logaddexp(z, torch.zeros_like(z))
    assert error.min() > -1e-12
    assert error.max() == pytest.approx(bound.max_error, rel=1e-6)


def test_every_interval_has_the_same_error():
    """Equal errors, each reached three times or more in an interval, are what makes a minimax fit."""
    bound = piecewise_bound.softplus_bound(20)
    for lower, upper in zip(bound.lower.clamp(min=-60), bound.upper.clamp(max=60), strict=True):
        z = torch.linspace(lower + 1e-9, upper, 20_001, dtype=torch.float64)
        error = value_of(bound, z) - torch.logaddexp(z, torch.zeros_like(z))
        assert error.max() == pytest.approx(bound.max_error, rel=1e-5)
        assert error.min() == pytest.approx(0, abs=1e-7)


def test_expectation_of_the_bound():
    """Against a sum over a fine grid; the bound jumps by up to its error between intervals, hence 1e-6."""
    bound = piecewise_bound.softplus_bound(10)
    u = torch.linspace(-10, 10, 1_000_001, dtype=torch.float64)
    weights = torch.exp(-(u**2) / 2) / torch.exp(-(u**2) / 2).sum()
    for m, s in [(0.0, 1.0), (-3.0, 2.0), (8.0, 0.1), (1.0, 30.0)]:
        found = piecewise_bound.expected_softplus_bound(
            torch.tensor([m]).double(), torch.tensor([s**2]).double(), bound
        )
        assert found.item() == pytest.approx((value_of(bound, m + s * u) @ weights).item(), abs=1e-6)


def test_expectation_is_within_the_error():
    m = torch.linspace(-50, 50, 41, dtype=torch.float64)
    bound = piecewise_bound.softplus_bound(20)
    for variance in (1e-4, 1.0, 100.0, 1e4):
        v = torch.full_like(m, variance)
        gap = piecewise_bound.expected_softplus_bound(m, v, bound) - softplus_expectations(m, v).softplus
        assert gap.min() > -1e-10
        assert gap.max() < bound.max_error + 1e-10


@pytest.mark.parametrize("seed", [0, 1])
def test_optimum(seed):
    rng = np.random.default_rng(seed)
    X, lam = rng.normal(size=(40, 3)), np.array([1e-3, 1.0, 2.0])
    y = np.where(rng.random(40) < 1 / (1 + np.exp(-3 * X[:, 0])), 1, -1)
    exact, bounded = logistic.mean_field(X, y, lam), piecewise_bound.mean_field(X, y, lam)
    assert bounded.gradient_norm < 1e-5
    at_bounded = logistic.elbo(X, y, bounded.mean, bounded.covariance, lam).item()
    error = piecewise_bound.softplus_bound(20).max_error
    assert exact.elbo - len(X) * error <= bounded.elbo <= at_bounded <= exact.elbo
    assert exact.elbo - at_bounded < 1e-6
    torch.testing.assert_close(bounded.mean, exact.mean, rtol=0.01, atol=1e-3)
    torch.testing.assert_close(bounded.stddev, exact.stddev, rtol=0.01, atol=1e-3)


def test_more_pieces_are_closer():
    errors = [piecewise_bound.softplus_bound(pieces).max_error for pieces in (4, 6, 10, 20)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 2e-4


@pytest.mark.parametrize("pieces", [2, 7])
def test_bad_number_of_pieces(pieces):
    with pytest.raises(ValueError, match=f"pieces must be an even number from 4 on, not {pieces}"):
        piecewise_bound.softplus_bound(pieces)
