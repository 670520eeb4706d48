"""The numerical checks of the theory hold, and fail if the theory is changed."""

from dataclasses import replace
from itertools import pairwise
from math import comb

import pytest
import torch

from vadam.exact import logistic
from vadam_paper.experiments.theory import (
    first_actions,
    fixed_points,
    ggn_error,
    identities,
    mirror_descent,
    momentum,
    speed_and_quality,
    theorem1,
)
from vadam_paper.experiments.theory.config import preset

CONFIG = preset("smoke", "text")


def test_theorem_1_holds_and_is_exhaustive() -> None:
    found = theorem1.check(CONFIG)
    assert [row["minibatches"] for row in found["sizes"]] == [comb(6, M) for M in range(1, 7)]
    assert max(row["error"] for row in found["sizes"]) < 1e-15
    assert found["sizes"][0]["w"] == 1
    assert found["sizes"][-1]["w"] == 0


def test_expectations_are_those_of_the_exact_module() -> None:
    """E_q[∇f] by the product rule, against the derivative of the exact expected log-likelihood."""
    X, y = fixed_points.problem(CONFIG)
    mu, sigma = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.tensor([0.5, 0.8], dtype=torch.float64)
    g, h = fixed_points.expectations(X, y, mu, sigma, "hessian")
    step = 1e-5

    def expected_loss(mean: torch.Tensor, variance: torch.Tensor) -> float:
        prior = 1.0
        kl = 0.5 * (prior * (mean**2 + variance) - 1 - (prior * variance).log()).sum()
        return -(logistic.elbo(X, y, mean, variance, prior).item() + kl.item()) / len(X)

    for j in range(2):
        e = torch.zeros(2, dtype=torch.float64)
        e[j] = step
        slope = (expected_loss(mu + e, sigma**2) - expected_loss(mu - e, sigma**2)) / (2 * step)
        assert g[j].item() == pytest.approx(slope, abs=1e-8)
        variance_slope = (expected_loss(mu, sigma**2 + e) - expected_loss(mu, sigma**2 - e)) / (2 * step)
        assert h[j].item() / 2 == pytest.approx(variance_slope, abs=1e-8)  # Price's theorem


def test_identities_hold() -> None:
    found = identities.check(CONFIG)
    for name in (
        "vadam_without_noise_and_prior_minus_adam",
        "von_minus_natural_gradient",
        "adam_minus_heavy_ball_with_quotient",
    ):
        assert found[name] < 1e-13, name
    assert found["adam_minus_heavy_ball_with_product"] > 1e-3
    assert found["smallest_change_of_vadagrads_s"] > 0
    assert found["vectors_per_weight"] == {"Vadam": 3, "BBVI with Adam": 6, "VOGN": 2, "Adam (no posterior)": 3}


def test_natural_gradients_are_gradients_in_the_expectation_parameters() -> None:
    found = mirror_descent.check(CONFIG)
    assert found["identity"] < 1e-12
    assert found["step"] < 1e-11
    eta, objective = mirror_descent.random_problem(CONFIG, 0)
    plain = torch.func.grad(lambda e: objective(*mirror_descent.from_natural(e)))(eta)
    assert (plain - mirror_descent.expectation_gradient(eta, objective)).norm() > 0.1 * plain.norm()


def test_parameters_of_a_gaussian_by_torchs_own() -> None:
    """m is the gradient of the log-partition function, whose value is that of the density at zero."""
    eta, _ = mirror_descent.random_problem(CONFIG, 1)
    torch.testing.assert_close(torch.func.grad(mirror_descent.log_partition)(eta), mirror_descent.expectation(eta))
    at_zero = mirror_descent.gaussian(eta).log_prob(torch.zeros(mirror_descent.DIMENSION, dtype=torch.float64))
    torch.testing.assert_close(-mirror_descent.log_partition(eta), at_zero)
    torch.testing.assert_close(mirror_descent.natural(*mirror_descent.from_natural(eta)), eta)


def test_squared_gradients_of_single_examples_by_a_loop() -> None:
    torch.manual_seed(0)
    X, y = torch.randn(5, ggn_error.INPUTS).double(), torch.tensor([0.0, 1, 1, 0, 1]).double()
    theta = torch.randn(ggn_error.WEIGHTS).double().requires_grad_()
    each = torch.stack(
        [torch.autograd.grad(ggn_error.loss(theta, X[i : i + 1], y[i : i + 1]), theta)[0] for i in range(5)]
    )
    g, h = ggn_error.gradient_and_ggn(theta.detach(), X, y)
    torch.testing.assert_close(g, each.mean(0))
    torch.testing.assert_close(h, (each**2).mean(0))


def test_a_run_settles_where_it_stays_near_its_end() -> None:
    steps = list(range(1, 11))
    gap = torch.tensor([10.0, 8.0, 1.0, 6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert speed_and_quality.settles(steps, gap) == 5
    assert speed_and_quality.settles(steps, torch.ones(10)) == 1


def test_times_to_settle_are_known_to_a_few_per_cent() -> None:
    """Two methods are told apart by their times to settle, so the looks must be denser than the difference."""
    looks = speed_and_quality.looks_at(preset("paper", "text").minibatches)
    assert all(later - look <= 1 + 0.026 * look for look, later in pairwise(looks))  # 1 for rounding


def test_the_end_of_a_run_is_its_last_quarter() -> None:
    """Looks are dense at the start: a share of the looks would reach back to steps at which slow rates have not settled."""
    steps = speed_and_quality.looks_at(1000)
    gap = torch.tensor([5.0 if step < 700 else 1.0 for step in steps])
    assert speed_and_quality.at_the_end(steps, gap) == 1.0


def test_every_rate_and_run_is_checked() -> None:
    X, y = speed_and_quality.problem(CONFIG)
    config = preset("smoke", "text")
    for method, M in (("vogn", 1), ("vprop", 32)):
        steps, gaps = speed_and_quality.distances(config, X, y, method, M, 0.0)
        assert steps[-1] == config.minibatches
        assert gaps.shape == (len(steps), len(speed_and_quality.RATES), config.runs)
        assert torch.isfinite(gaps).all()


def test_first_actions_saturate_without_the_constant() -> None:
    assert first_actions.saturated(CONFIG, 0, 0.0) > 0.99
    assert first_actions.saturated(CONFIG, 0, first_actions.C) == 0.0


def test_natural_momentum_is_the_recursion_in_natural_parameters_before_its_approximation() -> None:
    found = momentum.check(replace(CONFIG, fixed_point_steps=1000))
    assert found["exact_minus_recursion"] < 1e-9
    assert found["largest_relative_difference_of_precision"] > 0.05
    assert found["distance_of_fixed_points"] < 1e-6
