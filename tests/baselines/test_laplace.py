"""Laplace approximations where they are exact (linear models), and against Jacobians by autograd, one at a time."""

import pytest
import torch
from torch import nn

from vadam.baselines import DiagonalLaplace, LastLayerLaplace, laplace
from vadam.exact import linear
from vadam.likelihoods import Bernoulli, Categorical, Gaussian, InputNoiseGaussian, InputNoiseStudentT, StudentT


def test_linear_regression_is_exact(regression):
    X, y = regression
    exact = linear.fit(X, y, noise_precision=5.0, prior_precision=2.0)
    model = nn.Linear(3, 1, bias=False).double()
    model.weight.data = exact.mean[None]
    diagonal = DiagonalLaplace(2.0).fit(model, X, y, Gaussian(5.0), epochs=0).posterior
    last = LastLayerLaplace(2.0).fit(model, X, y, Gaussian(5.0), epochs=0).posterior
    torch.testing.assert_close(diagonal.precision["weight"][0], exact.mean_field_precision)
    torch.testing.assert_close(last.precision, exact.precision)
    torch.testing.assert_close(last.mean, exact.mean)


def test_logistic_regression(regression):
    """P = λI + Xᵀ diag(p(1 − p)) X."""
    X, y = regression
    model = nn.Linear(3, 1, bias=False).double()
    last = LastLayerLaplace(0.5).fit(model, X, (y > 0).double(), Bernoulli(), epochs=0).posterior
    p = torch.sigmoid(model(X)).detach()
    torch.testing.assert_close(last.precision, 0.5 * torch.eye(3).double() + X.T @ (p * (1 - p) * X))


@pytest.mark.parametrize("at_once", [1, 2**24])
def test_network_with_three_classes(regression, monkeypatch, at_once):
    """Σᵢ Jᵢᵀ (diag(p) − ppᵀ) Jᵢ with Jacobians by backward passes, one output of one example at a time."""
    monkeypatch.setattr(laplace, "JACOBIAN_ELEMENTS_AT_ONCE", at_once)
    X, y = regression[0], torch.arange(40) % 3
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    parameters = list(model.parameters())
    expected = torch.zeros(31, 31).double()
    for x in X:
        f = model(x[None])[0]
        J = torch.stack(
            [
                torch.cat([g.flatten() for g in torch.autograd.grad(f[c], parameters, retain_graph=True)])
                for c in range(3)
            ]
        )
        p = f.softmax(0).detach()
        expected += J.T @ (torch.diag(p) - torch.outer(p, p)) @ J

    diagonal = DiagonalLaplace(1.5).fit(model, X, y, Categorical(), epochs=0)
    found = torch.cat([value.flatten() for value in diagonal.posterior.precision.values()])
    torch.testing.assert_close(found, 1.5 + expected.diagonal())
    last = LastLayerLaplace(1.5).fit(model, X, y, Categorical(), epochs=0)
    torch.testing.assert_close(last.posterior.precision, 1.5 * torch.eye(15).double() + expected[16:, 16:])
    assert torch.equal(last.sample(4)["0.weight"], model[0].weight.detach().expand(4, 4, 3))
    assert last.sample(4)["2.weight"].std(0).min() > 0


def test_outputs_without_an_axis(regression):
    """A model may return [B] for targets [B]."""
    X, y = regression
    model = nn.Sequential(nn.Linear(3, 1, bias=False), nn.Flatten(0)).double()
    found = DiagonalLaplace(2.0).fit(model, X, y, Gaussian(5.0), epochs=0).posterior
    expected = linear.fit(X, y, noise_precision=5.0, prior_precision=2.0).mean_field_precision
    torch.testing.assert_close(found.precision["0.weight"][0], expected)


def test_no_linear_layer():
    model = nn.Conv1d(1, 1, 1)
    with pytest.raises(ValueError, match=r"Conv1d has no nn\.Linear layer"):
        LastLayerLaplace().fit(model, torch.zeros(2, 1, 3), torch.zeros(2, 1, 3), Gaussian(1.0), epochs=0)


def test_a_last_layer_that_shares_its_weight_with_another():
    """The shared weight has the name of the first layer, as in a language model."""
    table, last = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    last.weight = table.weight
    model = nn.Sequential(table, nn.Tanh(), last).double()
    X, y = torch.arange(20) % 5, torch.arange(20) % 3
    found = LastLayerLaplace(1.5).fit(model, X, y, Categorical(), epochs=0).posterior
    assert list(found.shapes) == ["0.weight"]
    diagonal = DiagonalLaplace(1.5).fit(model, X, y, Categorical(), epochs=0).posterior.precision["0.weight"]
    torch.testing.assert_close(found.precision.diagonal(), diagonal.flatten())


@pytest.mark.parametrize("likelihood", [InputNoiseGaussian(), InputNoiseStudentT(dof=5.0), StudentT(4.0, dof=5.0)])
def test_curvature_that_could_be_negative_is_the_fisher_information(regression, likelihood):
    """P = λI + Σᵢ E[∇log p ∇log pᵀ] over y: the Hessian at the targets of an untrained network is indefinite."""
    X, y = regression
    model = nn.Linear(3, 1 if isinstance(likelihood, StudentT) else 2, bias=False).double()
    last = LastLayerLaplace(2.0).fit(model, X, 10 * y, likelihood, epochs=0).posterior
    diagonal = DiagonalLaplace(2.0).fit(model, X, 10 * y, likelihood, epochs=0).posterior
    torch.testing.assert_close(diagonal.precision["weight"].flatten(), last.precision.diagonal())

    y_grid = torch.linspace(-300, 300, 200_001, dtype=torch.float64)
    expected = 2.0 * torch.eye(model.weight.numel()).double()
    for x, f in zip(X, model(X).detach(), strict=True):
        each = f.repeat(len(y_grid), 1).requires_grad_()
        log_p = likelihood.log_prob(each, y_grid[:, None])
        (score,) = torch.autograd.grad(log_p.sum(), each)
        weight = log_p.detach().exp() * (y_grid[1] - y_grid[0])
        expected += torch.kron(score.T @ (weight[:, None] * score), torch.outer(x, x))
    torch.testing.assert_close(last.precision, expected, rtol=1e-4, atol=1e-4)
