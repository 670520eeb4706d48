"""E ζ, E σ, E σ', E σ'', E σ''' under a Gaussian, against integration with 30 digits."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vadam.exact.expectations import expected_log_sigmoid, expected_sigmoid, softplus_expectations


def sigmoid(z):
    return 1 / (1 + mpmath.exp(-z))


FUNCTIONS = (
    lambda z: mpmath.log1p(mpmath.exp(z)),
    sigmoid,
    lambda z: sigmoid(z) * sigmoid(-z),
    lambda z: sigmoid(z) * sigmoid(-z) * (1 - 2 * sigmoid(z)),
    lambda z: sigmoid(z) * sigmoid(-z) * (1 - 6 * sigmoid(z) * sigmoid(-z)),
)


def integrated(f, mean, variance):
    with mpmath.workdps(30):
        m, s = mpmath.mpf(mean), mpmath.sqrt(variance)
        inside = [mpmath.mpf(z) for z in (-8, 0, 8) if abs(z - m) < 12 * s]
        points = sorted({m - 12 * s, m - 4 * s, m, m + 4 * s, m + 12 * s, *inside})
        return mpmath.quad(lambda z: f(z) * mpmath.npdf(z, m, s), points)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("mean", "variance"),
    [
        (0, 1),
        (-50, 1),
        (50, 1),
        (-50, 100),
        (50, 1e4),
        (-50, 1e4),
        (3, 1e4),
        (0.01, 1e-8),
        (-7.3, 0.1),
        (-20, 10),
        (11, 1e3),
    ],
)
def test_integration(mean, variance):
    """The value and two derivatives relative to their size, however small; those that only a Hessian needs to 1e-11."""
    found = softplus_expectations(tensor(mean), tensor(variance))
    for order, (value, f) in enumerate(zip(found, FUNCTIONS, strict=True)):
        expected = float(integrated(f, mean, variance))
        tolerance = {"rel": 2e-13, "abs": 1e-300} if order < 3 else {"abs": 1e-11}
        assert value.item() == pytest.approx(expected, **tolerance), order


@given(st.floats(-100, 100), st.floats(0, 1e6))
def test_reflection(mean, variance):
    """σ(z) + σ(−z) = 1 and ζ(z) − ζ(−z) = z, so the same holds for the expectations."""
    right, left = (softplus_expectations(tensor(m), tensor(variance)) for m in (mean, -mean))
    assert (right.sigmoid + left.sigmoid).item() == pytest.approx(1, abs=1e-14)
    assert (right.softplus - left.softplus).item() == pytest.approx(
        mean, abs=1e-13 * (1 + abs(mean) + math.sqrt(variance))
    )
    assert right.sigmoid1.item() == pytest.approx(left.sigmoid1.item(), rel=1e-9)


@given(st.floats(-30, 30), st.floats(0, 0.3))
def test_gauss_hermite_where_it_is_exact(mean, stddev):
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    z = mean + stddev * nodes
    expected = weights @ np.logaddexp(0, z) / weights.sum()
    assert softplus_expectations(tensor(mean), tensor(stddev**2)).softplus.item() == pytest.approx(expected, rel=1e-12)


def test_no_variance():
    z = torch.linspace(-40, 40, 81, dtype=torch.float64)
    found = softplus_expectations(z, torch.zeros_like(z))
    p = torch.sigmoid(z)
    expected = [torch.logaddexp(z, torch.zeros_like(z)), p, p * (1 - p), p * (1 - p) * (1 - 2 * p)]
    for value, function in zip(found, expected, strict=False):
        torch.testing.assert_close(value, function, rtol=1e-12, atol=1e-12)


def test_derivatives_with_respect_to_mean_and_variance():
    """∂/∂m takes each expectation to the next, ∂/∂v to half of the one after; central differences, so to 1e-7."""
    m, v, h = torch.linspace(-4, 4, 9, dtype=torch.float64), torch.full((9,), 2.5, dtype=torch.float64), 1e-4
    E = softplus_expectations(m, v)
    by_mean = [
        (a - b) / (2 * h) for a, b in zip(softplus_expectations(m + h, v), softplus_expectations(m - h, v), strict=True)
    ]
    by_variance = [
        (a - b) / (2 * h) for a, b in zip(softplus_expectations(m, v + h), softplus_expectations(m, v - h), strict=True)
    ]
    for k in range(4):
        torch.testing.assert_close(by_mean[k], E[k + 1], rtol=0, atol=1e-7)
    for k in range(3):
        torch.testing.assert_close(by_variance[k], E[k + 2] / 2, rtol=0, atol=1e-7)


def test_log_sigmoid_and_sigmoid_keep_small_values():
    """At mean 50 and variance 1, E log σ = −E e^−z up to e^−100, which is −e^−49.5."""
    assert expected_log_sigmoid(tensor(50), tensor(1)).item() == pytest.approx(-math.exp(-49.5), rel=1e-12)
    assert expected_sigmoid(tensor(-50), tensor(1)).item() == pytest.approx(math.exp(-49.5), rel=1e-12)
