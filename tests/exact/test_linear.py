"""Bayesian linear regression against Gaussian conditioning written out in data space, and scipy's densities."""

import numpy as np
import pytest
import torch
from scipy import stats

from vadam.exact import linear

TAU = 4.0
LAM = np.array([0.5, 1.0, 3.0])


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    return X, X @ rng.normal(size=3) + rng.normal(size=12) / np.sqrt(TAU), rng.normal(size=(5, 3))


def fitted(problem):
    X, y, _ = problem
    return linear.fit(X, y, noise_precision=TAU, prior_precision=LAM)


def test_posterior_and_prediction(problem):
    """y and the weights are jointly Gaussian: condition on y with the N × N covariance K = XΛ⁻¹Xᵀ + I/τ."""
    X, y, new = problem
    fit = fitted(problem)
    K = X / LAM @ X.T + np.eye(12) / TAU
    gain = np.linalg.solve(K, X / LAM).T
    mean, covariance = gain @ y, np.diag(1 / LAM) - gain @ X / LAM
    np.testing.assert_allclose(fit.mean, mean, atol=1e-12)
    np.testing.assert_allclose(fit.covariance, covariance, atol=1e-12)
    np.testing.assert_allclose(fit.stddev, np.sqrt(np.diag(covariance)), atol=1e-12)
    predicted_mean, predicted_variance = fit.predict(new)
    np.testing.assert_allclose(predicted_mean, new @ mean, atol=1e-12)
    np.testing.assert_allclose(predicted_variance, np.diag(new @ covariance @ new.T) + 1 / TAU, atol=1e-12)


def test_evidence(problem):
    X, y, _ = problem
    K = X / LAM @ X.T + np.eye(12) / TAU
    assert fitted(problem).log_evidence == pytest.approx(
        stats.multivariate_normal(np.zeros(12), K).logpdf(y), abs=1e-11
    )


def test_mean_field_maximises_the_elbo(problem):
    """L-BFGS on the ELBO, E log p(y|w) − KL(q‖p) written out with torch's distributions."""
    X, y, lam = torch.tensor(problem[0]), torch.tensor(problem[1]), torch.tensor(LAM)
    m, log_s = torch.zeros(3).double().requires_grad_(), torch.zeros(3).double().requires_grad_()
    prior = torch.distributions.Normal(torch.zeros(3).double(), lam.rsqrt())

    def elbo():
        squares = (y - X @ m).square().sum() + (X**2 @ (2 * log_s).exp()).sum()
        log_likelihood = 0.5 * (len(y) * np.log(TAU / (2 * np.pi)) - TAU * squares)
        return (
            log_likelihood - torch.distributions.kl_divergence(torch.distributions.Normal(m, log_s.exp()), prior).sum()
        )

    options = {"tolerance_grad": 1e-11, "tolerance_change": 0.0, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([m, log_s], max_iter=1000, **options)

    def closure():
        optimizer.zero_grad()
        loss = -elbo()
        loss.backward()
        return loss

    optimizer.step(closure)
    fit = fitted(problem)
    torch.testing.assert_close(fit.mean, m.detach(), rtol=0, atol=1e-8)
    torch.testing.assert_close(fit.mean_field_precision, (-2 * log_s).exp().detach(), rtol=1e-8, atol=0)
    assert fit.mean_field_elbo == pytest.approx(elbo().item(), abs=1e-10)
    assert fit.mean_field_elbo < fit.log_evidence


def test_posteriors_as_modules_weights(problem):
    fit, new = fitted(problem), torch.tensor(problem[2])
    full, mean_field = fit.posterior(), fit.mean_field_posterior()
    assert full.sample(2)["weight"].shape == (2, 1, 3)
    q = torch.distributions.MultivariateNormal(fit.mean, precision_matrix=torch.diag(fit.mean_field_precision))
    p = torch.distributions.MultivariateNormal(full.mean, precision_matrix=full.precision)
    kl = torch.distributions.kl_divergence(q, p).item()
    assert kl == pytest.approx(fit.log_evidence - fit.mean_field_elbo, abs=1e-10)
    _, variance = fit.predict_mean_field(new)
    torch.testing.assert_close(variance, new**2 @ mean_field.variance["weight"][0] + 1 / TAU)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_precision": 0.0}, "noise_precision must be positive and finite, not 0.0"),
        ({"prior_precision": -1.0}, "prior_precision must be positive"),
        ({"y": [1.0]}, "X has 2 rows, but y has 1 targets"),
        ({"y": [1.0, np.inf]}, "y must be finite"),
    ],
)
def test_bad_input(change, message):
    arguments = {"X": np.eye(2), "y": [1.0, 2.0], "noise_precision": 1.0, "prior_precision": 1.0} | change
    with pytest.raises(ValueError, match=message):
        linear.fit(**arguments)
