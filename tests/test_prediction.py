"""Predictions against closed forms, scipy and brute force."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize, stats
from torch import nn

from vadam import metrics
from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture
from vadam.likelihoods import Bernoulli, Categorical, Gaussian
from vadam.prediction import Binary, Classes, MissingLikelihood, Prediction, Regression, predict


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def linear_problem():
    """Return f(x) = wᵀx with w ~ N(μ, Σ), for which y ~ N(μᵀx, xᵀΣx + 1/τ) exactly."""
    model = nn.Linear(3, 1, bias=False).double()
    mean = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    root = torch.tensor([[1.0, 0, 0], [0.6, 0.8, 0], [-0.5, 0.1, 0.4]], dtype=torch.float64)
    full = FullGaussian(mean, (root @ root.T).inverse(), {"weight": torch.Size([1, 3])})
    x = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 1], [2, -1, 0.5]], dtype=torch.float64)
    return model, full, x, x @ mean, ((x @ root) ** 2).sum(1)


@pytest.mark.parametrize("kind", ["full", "mean-field", "mixture"])
def test_linear_gaussian_predictive_is_the_closed_form(kind):
    """S draws: the mean has standard error σ_f/√S, the variance σ_f²√(2/S); five of these are allowed."""
    model, post, x, mean, variance = linear_problem()
    if kind == "mean-field":
        post = post.marginals()
        variance = x**2 @ post.variance["weight"][0]
    if kind == "mixture":
        post = Mixture([post, post])
    S, tau = 4000, 4.0
    pred = predict(model, post, x, S, likelihood=Gaussian(tau), generator=generator())
    sigma = variance.sqrt()
    assert ((pred.mean[:, 0] - mean).abs() <= 5 * sigma / S**0.5 + 1e-12).all()
    assert ((pred.epistemic[:, 0] ** 2 - variance).abs() <= 5 * variance * (2 / S) ** 0.5 + 1e-12).all()
    assert (pred.aleatoric == tau**-0.5).all()
    torch.testing.assert_close(pred.variance, pred.epistemic**2 + 1 / tau)
    torch.testing.assert_close(pred.std**2, pred.variance)
    total = (variance + 1 / tau).sqrt()
    for level in (0.5, 0.9):
        lower, upper = pred.interval(level)
        z = stats.norm.ppf((1 + level) / 2)
        # a quantile of S plain draws would have standard error √(p (1 − p)/S) over the density; smoothed ones have less
        error = total * ((1 - level**2) / 4 / S) ** 0.5 / stats.norm.pdf(z)
        assert ((lower[:, 0] - (mean - z * total)).abs() <= 5 * error).all()
        assert ((upper[:, 0] - (mean + z * total)).abs() <= 5 * error).all()
    y = (mean + 0.7 * total)[:, None]
    each = pred.log_prob_samples(y).exp()
    error = each.std(0) / S**0.5 / each.mean(0)  # relative error of the averaged density, by the central limit theorem
    expected = stats.norm.logpdf(y[:, 0], mean, total)
    assert ((pred.log_prob(y) - torch.as_tensor(expected)).abs() <= 5 * error + 1e-12).all()


def test_joint_log_prob_is_that_of_correlated_targets():
    """Under q the targets together are N(Xμ, XΣXᵀ + I/τ); pointwise they would be taken as independent."""
    model, post, x, mean, _ = linear_problem()
    x, mean = x[1:], mean[1:]
    tau, y = 1.0, mean[:, None] + 0.5
    pred = predict(model, post, x, 10_000, likelihood=Gaussian(tau), generator=generator())
    covariance = (x @ post.covariance @ x.T + torch.eye(3) / tau).numpy()
    expected = stats.multivariate_normal.logpdf(y[:, 0], mean, covariance)
    each = pred.log_prob_samples(y).sum(1).exp()
    error = (each.std() / 10_000**0.5 / each.mean()).item()  # of the averaged density, by the central limit theorem
    assert error < 0.02
    assert abs(pred.joint_log_prob(y).item() - expected) < 5 * error
    assert abs(pred.log_prob(y).sum().item() - expected) > 0.1


OUTPUTS = torch.tensor([[-3.0, 0.0, 5.0], [-1.0, 0.0, 5.1], [2.0, 0.0, -70.0], [2.5, 0.0, 80.0]], dtype=torch.float64)


@pytest.mark.parametrize("tau", [100.0, 1.0, 0.01])
@pytest.mark.parametrize("q", [0.001, 0.05, 0.3, 0.6, 0.9, 0.999])
def test_quantiles_are_those_of_the_mixture(q, tau):
    pred = Regression(OUTPUTS[:, :, None], Gaussian(tau))
    for i, centres in enumerate(OUTPUTS.T.numpy()):
        expected = optimize.brentq(
            lambda t, c=centres: stats.norm.cdf((t - c) * tau**0.5).mean() - q, -500, 500, xtol=1e-13
        )
        assert abs(pred.quantile(q)[i, 0].item() - expected) < 1e-9
    torch.testing.assert_close(
        pred.cdf(pred.quantile(q)), torch.full((3, 1), q, dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_a_vector_of_quantiles_adds_an_axis_and_single_precision_is_enough():
    pred = Regression(OUTPUTS.float(), Gaussian(4.0))
    levels = torch.tensor([0.1, 0.5, 0.9])
    several = pred.quantile(levels)
    assert several.shape == (3, 3)
    assert torch.equal(several[1], pred.quantile(0.5))
    exact = Regression(OUTPUTS, Gaussian(4.0)).quantile(levels.double())
    torch.testing.assert_close(several, exact.float(), rtol=1e-5, atol=1e-5)


def test_noise_may_differ_between_outputs():
    tau = torch.tensor([1.0, 4.0, 16.0], dtype=torch.float64)
    pred = Regression(OUTPUTS, Gaussian(tau))
    torch.testing.assert_close(pred.aleatoric, tau.rsqrt())
    alone = Regression(OUTPUTS[:, 1:2], Gaussian(4.0))
    torch.testing.assert_close(pred.quantile(0.9)[1:2], alone.quantile(0.9))


def test_a_draw_that_is_nan_is_seen_in_every_answer():
    outputs = torch.randn(31, 5)
    outputs[3, 2] = torch.nan
    pred = Regression(outputs)
    for answer in (pred.mean, pred.std, pred.cdf(torch.zeros(5)), pred.quantile(0.1), *pred.interval(0.9)):
        assert answer.isnan().tolist() == [False, False, True, False, False]


def test_without_a_likelihood_it_is_the_function_alone():
    outputs = torch.randn(31, 5, dtype=torch.float64)
    pred = Regression(outputs)
    assert (pred.aleatoric == 0).all()
    torch.testing.assert_close(pred.std, torch.as_tensor(outputs.numpy().std(0)))
    for q in (0.01, 0.25, 0.5, 0.97):
        np.testing.assert_allclose(pred.quantile(q), np.quantile(outputs.numpy(), q, axis=0), rtol=1e-12)
    torch.testing.assert_close(pred.cdf(pred.quantile(0.5)), torch.full((5,), 16 / 31, dtype=torch.float64))
    with pytest.raises(ValueError, match="needs a likelihood"):
        pred.log_prob(torch.zeros(5))


def test_a_missing_likelihood_warns_and_none_does_not(recwarn):
    model, post, x, _, _ = linear_problem()
    predict(model, post, x, 2, likelihood=None)
    assert not recwarn
    with pytest.warns(MissingLikelihood, match=r"Categorical\(\) for cross-entropy") as found:
        pred = predict(model, post, x, 2)
    assert type(pred) is Regression
    assert found[0].filename == __file__  # the line of the caller, so that Python shows it once for each call


def test_class_probabilities_and_entropies():
    logits = 3 * torch.randn(40, 6, 4, dtype=torch.float64)
    pred = Classes(logits, Categorical())
    p = logits.softmax(-1).numpy()
    np.testing.assert_allclose(pred.probs, p.mean(0), rtol=1e-12)
    np.testing.assert_allclose(pred.entropy, stats.entropy(p.mean(0), axis=-1), rtol=1e-12)
    np.testing.assert_allclose(pred.expected_entropy, stats.entropy(p, axis=-1).mean(0), rtol=1e-12)
    kl = stats.entropy(p, p.mean(0, keepdims=True), axis=-1).mean(0)  # mutual information is E KL(p_s ‖ p)
    np.testing.assert_allclose(pred.mutual_information, kl, rtol=1e-9)
    np.testing.assert_array_equal(pred.label, p.mean(0).argmax(-1))
    np.testing.assert_allclose(pred.confidence, p.mean(0).max(-1))
    y = torch.tensor([0, 1, 2, 3, 0, 1])
    picked = p[:, range(6), y]
    np.testing.assert_allclose(pred.log_prob(y), np.log(picked.mean(0)), rtol=1e-10)
    np.testing.assert_allclose(pred.joint_log_prob(y), np.log(picked.prod(1).mean()), rtol=1e-10)


def test_networks_that_agree_have_no_mutual_information():
    logits = torch.randn(1, 6, 4).expand(10, 6, 4)
    pred = Classes(logits, Categorical())
    assert pred.mutual_information.max() < 1e-6
    assert pred.mutual_information.min() >= 0
    certain = Classes(torch.tensor([[[1000.0, 0.0]], [[0.0, 1000.0]]]), Categorical())  # sure, and of opposite opinion
    assert certain.expected_entropy.item() == 0
    assert certain.mutual_information.item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("axes", [(6,), (6, 1)])
def test_two_classes_with_one_logit_are_two_classes_with_logits_0_and_z(axes):
    z = 2 * torch.randn(9, *axes, dtype=torch.float64)
    one, two = Binary(z, Bernoulli()), Classes(torch.stack([torch.zeros_like(z), z], -1), Categorical())
    torch.testing.assert_close(one.probs, two.probs[..., 1])
    assert one.probs.shape == axes
    for name in ("entropy", "expected_entropy", "mutual_information", "confidence", "label"):
        torch.testing.assert_close(getattr(one, name), getattr(two, name))
    y = torch.tensor([0, 1, 1, 0, 1, 0]).reshape(axes)
    torch.testing.assert_close(one.log_prob(y), two.log_prob(y))
    torch.testing.assert_close(one.joint_log_prob(y), two.joint_log_prob(y))


def test_log_probabilities_are_what_the_metrics_average():
    pred, y = Regression(torch.randn(8, 5, dtype=torch.float64), Gaussian(2.0)), torch.randn(5, dtype=torch.float64)
    table = pred.log_prob_samples(y)
    torch.testing.assert_close(metrics.log_likelihood(table), pred.log_prob(y).mean())
    torch.testing.assert_close(metrics.joint_log_likelihood(table), pred.joint_log_prob(y) / 5)


def test_log_probabilities_do_not_underflow():
    pred = Regression(torch.zeros(4, 3), Gaussian(1e4))
    y = torch.full((3,), 100.0)
    assert pred.log_prob(y).isfinite().all()
    assert pred.joint_log_prob(y).isfinite()


@pytest.mark.parametrize(
    ("likelihood", "kind"),
    [(None, Regression), (Gaussian(1.0), Regression), (Bernoulli(), Binary), (Categorical(), Classes)],
)
def test_the_likelihood_decides_the_kind_of_prediction(likelihood, kind):
    model = nn.Linear(2, 3)
    mean = {name: p.detach() for name, p in model.named_parameters()}
    post = MeanFieldGaussian(mean, {name: torch.ones_like(p) for name, p in mean.items()})
    pred = predict(model, post, torch.randn(5, 2), 4, likelihood=likelihood)
    assert type(pred) is kind
    assert pred.samples.shape == (4, 5, 3)
    assert "4 samples of [5, 3]" in repr(pred)
    for other in (copy.deepcopy(pred), pickle.loads(pickle.dumps(pred))):
        assert torch.equal(other.samples, pred.samples)


def test_a_likelihood_of_ones_own_gives_log_probabilities():
    class Laplace:
        def log_prob(self, output, y):
            return torch.distributions.Laplace(output, 1.0).log_prob(y)

    model = nn.Linear(2, 1)
    post = MeanFieldGaussian({"bias": torch.zeros(1)}, {"bias": torch.ones(1)})
    pred = predict(model, post, torch.randn(5, 2), 4, likelihood=Laplace())
    assert type(pred) is Prediction
    y = torch.zeros(5, 1)
    expected = torch.distributions.Laplace(pred.samples, 1.0).log_prob(y).exp().mean(0).log()
    torch.testing.assert_close(pred.log_prob(y), expected)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda p: p.quantile(0.0), "or a vector of them, got 0.0"),
        (lambda p: p.quantile(1.5), "or a vector of them, got 1.5"),
        (lambda p: p.quantile(torch.tensor([0.5, float("nan")])), "between 0 and 1"),
        (lambda p: p.interval(90), "level must be between 0 and 1, e.g. 0.9, got 90"),
        (lambda p: p.probs, "vadam.Categorical()"),
        (lambda p: p.log_prob(torch.zeros(4)), "targets of shape [4] do not fit outputs of shape [3]"),
        (lambda p: p.cdf(torch.zeros(4)), "targets of shape [4]"),
        (lambda p: Binary(p.samples, Bernoulli()).mean, "vadam.Gaussian"),
    ],
)
def test_wrong_use_is_explained(act, message):
    with pytest.raises((ValueError, AttributeError)) as error:
        act(Regression(OUTPUTS, Gaussian(1.0)))
    assert message in str(error.value)


def test_targets_may_be_arrays_or_columns_of_a_table():
    y = np.linspace(-1, 1, 12)
    numbers = Regression(torch.randn(8, 12, 1, dtype=torch.float64), Gaussian(4.0))
    labels = np.arange(12) % 3
    classes = Classes(torch.randn(8, 12, 3, dtype=torch.float64), Categorical())
    for convert in (np.asarray, pd.Series, np.ndarray.tolist):
        for method in ("cdf", "log_prob", "joint_log_prob", "crps"):
            found, expected = (getattr(numbers, method)(values) for values in (convert(y), torch.tensor(y)))
            assert torch.equal(found, expected)
        assert torch.equal(classes.log_prob(convert(labels)), classes.log_prob(torch.tensor(labels)))


@pytest.mark.parametrize("x", [torch.zeros(2), [torch.zeros(2)] * 4], ids=["a row", "a list of rows"])
def test_rows_that_are_no_batch_are_refused_where_their_logits_would_be_glued_together(x):
    model = nn.Linear(2, 3)
    mean = dict(model.named_parameters())
    post = MeanFieldGaussian(mean, {name: torch.ones_like(p) for name, p in mean.items()})
    with pytest.raises(ValueError, match=r"without an axis for the rows: .* x\[None\] for one and torch.stack\(rows\)"):
        predict(model, post, x, likelihood=Categorical())


@pytest.mark.parametrize("given", [Categorical, "categorical", nn.CrossEntropyLoss()], ids=str)
def test_a_loss_or_a_class_is_no_likelihood(given):
    model = nn.Linear(2, 3)
    mean = dict(model.named_parameters())
    post = MeanFieldGaussian(mean, {name: torch.ones_like(p) for name, p in mean.items()})
    with pytest.raises(TypeError, match=r"is not a likelihood: give an instance such as vadam.Categorical\(\)"):
        predict(model, post, torch.zeros(4, 2), likelihood=given)
