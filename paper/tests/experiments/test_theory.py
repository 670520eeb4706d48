"""The numerical checks of the theory: they hold, and they would notice if it did not."""

from math import comb

import pytest
import torch

from vadam.exact import logistic
from vadam_paper.experiments.theory import fixed_points, identities, theorem1
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
