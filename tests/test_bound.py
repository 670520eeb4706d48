"""The ELBO against Bayesian linear regression, where everything is known."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal
from torch.utils.data import DataLoader, TensorDataset

from vadam.bound import elbo, nelbo_per_datum
from vadam.forward import Draws
from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture
from vadam.likelihoods import Bernoulli, Categorical, Gaussian

TAU, LAM, N, D = 4.0, 0.5, 12, 3


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def regression():
    g = generator(1)
    X = torch.randn(N, D, generator=g, dtype=torch.float64)
    y = X @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) + torch.randn(N, generator=g, dtype=torch.float64) / 2
    return nn.Linear(D, 1, bias=False).double(), X, y[:, None]


def exact_posterior(X, y):
    precision = TAU * X.T @ X + LAM * torch.eye(D)
    mean = torch.linalg.solve(precision, TAU * X.T @ y)[:, 0]
    return FullGaussian(mean, precision, {"weight": torch.Size([1, D])}, prior_precision={"weight": LAM})


def mean_field(X, y):
    exact = exact_posterior(X, y)
    mean, precision = {"weight": exact.mean[None]}, {"weight": exact.precision.diagonal()[None]}
    return MeanFieldGaussian(mean, precision, prior_precision={"weight": LAM})


def test_at_the_exact_posterior_the_elbo_is_the_log_evidence():
    """log p(y) = log N(y | 0, XXᵀ/λ + I/τ). The tolerance is five standard errors of S = 2000 draws of log p(y | θ)."""
    model, X, y = regression()
    post, S = exact_posterior(X, y), 2000
    log_evidence = MultivariateNormal(torch.zeros(N).double(), X @ X.T / LAM + torch.eye(N) / TAU).log_prob(y[:, 0])
    value = elbo(model, post, Gaussian(TAU), (X, y), num_data=N, samples=S, generator=generator())
    # log p(y | θ) is a constant − ½ χ² of TAU XᵀX against the posterior: at most D degrees of freedom, deviation √(D/2)
    assert abs(value - log_evidence) < 5 * (D / 2 / S) ** 0.5
    assert (
        elbo(model, mean_field(X, y), Gaussian(TAU), (X, y), num_data=N, samples=S, generator=generator())
        < log_evidence
    )


def test_mean_field_elbo_is_the_closed_form():
    """E_q log N(y | wᵀx, 1/τ) = log N(y | μᵀx, 1/τ) − τ/2 Σ x²σ²; Monte-Carlo error as above."""
    model, X, y = regression()
    post, S = mean_field(X, y), 2000
    mu, sigma = post.mean["weight"], post.stddev["weight"]
    expected = (
        N / 2 * math.log(TAU / (2 * math.pi)) - TAU / 2 * ((y - X @ mu.T) ** 2 + X**2 @ (sigma**2).T).sum() - post.kl()
    )
    value = elbo(model, post, Gaussian(TAU), (X, y), num_data=N, samples=S, generator=generator())
    assert abs(value - expected) < 5 * (D / 2 / S) ** 0.5
    per_datum = nelbo_per_datum(model, post, Gaussian(TAU), (X, y), num_data=N, samples=S, generator=generator())
    torch.testing.assert_close(per_datum, -value / N)


def test_batches_are_the_whole_and_a_part_is_scaled_up():
    model, X, y = regression()
    post = mean_field(X, y)

    def value(data, num_data=N):
        return elbo(model, post, Gaussian(TAU), data, num_data=num_data, samples=8, generator=generator())

    whole = value((X, y))
    loader = DataLoader(TensorDataset(X, y), batch_size=5)
    for data in (loader, [(X[:1], y[:1]), (X[1:], y[1:])], ((X[i : i + 4], y[i : i + 4]) for i in (0, 4, 8))):
        torch.testing.assert_close(value(data), whole, rtol=1e-12, atol=1e-12)
    twice = value((torch.cat([X, X]), torch.cat([y, y])))  # the same data seen twice say nothing new about N examples
    torch.testing.assert_close(twice, whole, rtol=1e-12, atol=1e-12)
    log_lik = whole + post.kl()
    torch.testing.assert_close(value((X, y), num_data=10 * N), 10 * log_lik - post.kl(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y"),
    [(Bernoulli(), 1, torch.tensor([0, 1, 1])), (Categorical(), 4, torch.tensor([3, 0, 1]))],
)
def test_at_the_prior_the_elbo_is_the_expected_log_likelihood(likelihood, outputs, y):
    model = nn.Linear(2, outputs)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    post = MeanFieldGaussian(
        {n: torch.zeros(s) for n, s in shapes.items()},
        {n: torch.ones(s) for n, s in shapes.items()},
        prior_precision=dict.fromkeys(shapes, 1.0),
    )
    x = torch.randn(3, 2)
    draws = Draws(post, 5, generator=generator()).weights
    log_probs = [likelihood.log_prob(x @ w.T + b, y).sum() for w, b in zip(draws["weight"], draws["bias"], strict=True)]
    value = elbo(model, post, likelihood, (x, y), num_data=3, samples=5, generator=generator())
    torch.testing.assert_close(value, torch.stack(log_probs).mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_data": 0}, "num_data=0"),
        ({"num_data": None}, "num_data=None"),
        ({"num_data": "340"}, "num_data='340'"),
        ({"data": tuple(part.numpy() for part in regression()[1:])}, "is a ndarray: give a tensor"),
        ({"data": []}, "(x, y)"),
        ({"data": (torch.ones(0, 3), torch.ones(0, 1))}, "data holds no example"),
        ({"data": [torch.ones(2, 3), torch.ones(2, 1)]}, "(x, y)"),
        ({"post": Mixture([mean_field(*regression()[1:])])}, "closed-form KL to its prior, got Mixture"),
        ({"post": MeanFieldGaussian({"weight": torch.ones(1, 3)}, {"weight": torch.ones(1, 3)})}, "has no prior"),
    ],
)
def test_wrong_use_is_explained(change, message):
    model, X, y = regression()
    given = {"post": mean_field(X, y), "likelihood": Gaussian(TAU), "data": (X, y), "num_data": N} | change
    with pytest.raises((ValueError, TypeError)) as error:
        elbo(model, **given)
    assert message in str(error.value)


def test_targets_may_be_arrays():
    model, X, y = regression()
    post, given = mean_field(X, y), {"num_data": N, "samples": 4}
    of_tensors = elbo(model, post, Gaussian(TAU), (X, y), generator=generator(), **given)
    assert elbo(model, post, Gaussian(TAU), (X, y.numpy()), generator=generator(), **given) == of_tensors
