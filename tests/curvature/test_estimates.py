"""The curvatures that need no model: expectations over Gaussian noise by Gauss-Hermite quadrature, Theorem 1 by enumeration."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

from vadam import curvature

MEAN, PRECISION = 0.7, 4.0


def quadrature(degree=20):
    """Nodes ε and weights of the standard normal: exact for polynomials up to degree 2·20 − 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree)
    return torch.tensor(nodes), torch.tensor(weights / weights.sum())


def cubic(theta):
    return theta**3 - 2 * theta**2 + 0.5 * theta


def expected(power_of_gradient):
    """E[f'] and E[f''] of the cubic in closed form, under θ ~ N(MEAN, 1/PRECISION)."""
    variance = 1 / PRECISION
    return {1: 3 * (MEAN**2 + variance) - 4 * MEAN + 0.5, 2: 6 * MEAN - 4}[power_of_gradient]


def test_magnitude_is_the_square():
    g = torch.tensor([-2.0, 0.0, 3.0])
    assert torch.equal(curvature.magnitude(g), torch.tensor([4.0, 0.0, 9.0]))


def test_reparameterised_curvature_has_the_hessian_as_its_mean():
    eps, weights = quadrature()
    theta = MEAN + eps / PRECISION**0.5
    g = 3 * theta**2 - 4 * theta + 0.5
    h = curvature.reparameterised(g, eps, torch.tensor(PRECISION, dtype=torch.float64))
    assert (weights * h).sum().item() == pytest.approx(expected(2), abs=1e-12)


def test_score_function_estimates_have_gradient_and_hessian_as_their_means():
    eps, weights = quadrature()
    value = cubic(MEAN + eps / PRECISION**0.5)
    precision = torch.tensor(PRECISION, dtype=torch.float64)
    assert (weights * curvature.score_gradient(value, eps, precision)).sum().item() == pytest.approx(
        expected(1), abs=1e-12
    )
    assert (weights * curvature.score_curvature(value, eps, precision)).sum().item() == pytest.approx(
        expected(2), abs=1e-12
    )


def test_score_function_takes_a_number_for_a_whole_tensor():
    eps, precision = torch.randn(3, 2), torch.rand(3, 2) + 1
    for value in (2.5, torch.tensor(2.5)):
        assert torch.equal(curvature.score_gradient(value, eps, precision), 2.5 * eps * precision.sqrt())
        assert torch.allclose(curvature.score_curvature(value, eps, precision), 2.5 * (eps**2 - 1) * precision)


N = 7


@pytest.fixture
def per_example_gradients():
    return torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.3


@pytest.mark.parametrize("M", range(1, N + 1))
def test_theorem_1_by_enumerating_all_minibatches(per_example_gradients, M):
    g = per_example_gradients
    magnitudes = [curvature.magnitude(g[list(batch)].mean(0)) for batch in combinations(range(N), M)]
    assert len(magnitudes) == comb(N, M)
    expected = curvature.expected_magnitude((g**2).mean(0), g.mean(0), num_data=N, batch_size=M)
    torch.testing.assert_close(torch.stack(magnitudes).mean(0), expected, rtol=1e-12, atol=1e-12)


def test_bias_at_the_ends():
    assert curvature.gm_bias(1, 1) == curvature.gm_bias(100, 1) == 1
    assert curvature.gm_bias(100, 100) == 0


@pytest.mark.parametrize("batch_size", [0, 11])
def test_batch_size_outside_the_data(batch_size):
    with pytest.raises(ValueError, match=f"between 1 and num_data = 10, got {batch_size}"):
        curvature.gm_bias(10, batch_size)
