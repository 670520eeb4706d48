"""Temperatures against scikit-learn's, spreads against the closed form for Gaussians."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize, special
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from vadam import metrics
from vadam.calibration import (
    ConformalIntervals,
    ConformalSets,
    CrossConformalIntervals,
    SpreadScaling,
    TemperatureScaling,
)
from vadam.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    InputNoiseGaussian,
    InputNoiseStudentT,
    Poisson,
    StudentT,
)
from vadam.prediction import Binary, Classes, Regression


def logits_and_labels(n=400, C=3, sharpness=3.0):
    """Draw labels from softmax f, and show a model that claims softmax(sharpness f)."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=(n, C))
    y = np.array([rng.choice(C, p=special.softmax(row)) for row in f])
    return torch.tensor(sharpness * f), torch.tensor(y)


def test_temperature_of_one_network_is_scikit_learns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, :3] + 2 * rng.gumbel(size=(300, 3))).argmax(1)
    model = LogisticRegression(C=1e4).fit(X[:40], y[:40])
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X[40:], y[40:])
    held_out = Classes(torch.tensor(model.decision_function(X[40:]))[None], Categorical())
    scaling = TemperatureScaling.fit(held_out, torch.tensor(y[40:]))
    assert scaling.temperature > 1.5  # 40 rows learned by heart
    ours = scaling(Classes(torch.tensor(model.decision_function(X))[None], Categorical())).probs
    np.testing.assert_allclose(ours, theirs.predict_proba(X), atol=1e-4)


def test_temperature_of_many_draws_is_the_most_likely_one():
    f, y = logits_and_labels()
    samples = f + torch.randn(5, *f.shape, dtype=f.dtype, generator=torch.Generator().manual_seed(0))
    prediction = Classes(samples, Categorical())
    scaling = TemperatureScaling.fit(prediction, y)

    def loss(log_temperature):
        p = special.softmax(samples.numpy() / math.exp(log_temperature), axis=-1).mean(0)
        return -np.log(p[np.arange(len(y)), y]).mean()

    best = optimize.minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8})
    assert math.log(scaling.temperature) == pytest.approx(best.x, abs=1e-4)
    assert metrics.ece(scaling(prediction).probs, y) < metrics.ece(prediction.probs, y)
    assert torch.equal(scaling(prediction).label, scaling(prediction).probs.argmax(-1))


def test_temperature_of_two_classes():
    f, y = logits_and_labels(C=2)
    one = (f[:, 1] - f[:, 0])[None]
    both = TemperatureScaling.fit(Classes(f[None], Categorical()), y)
    single = TemperatureScaling.fit(Binary(one, Bernoulli()), y)
    assert single.temperature == pytest.approx(both.temperature, rel=1e-4)
    assert single.temperature == pytest.approx(3.0, rel=0.25)  # the sharpness; n = 400


@pytest.mark.parametrize("columns", [False, True])
def test_spread_of_a_gaussian_is_the_root_mean_square_of_its_errors(columns):
    generator = torch.Generator().manual_seed(0)
    y = 2.5 * torch.randn(200, dtype=torch.float64, generator=generator)
    shape = (1, 200, 1) if columns else (1, 200)
    prediction = Regression(torch.zeros(shape, dtype=torch.float64), Gaussian(4.0))
    scaling = SpreadScaling.fit(prediction, y)
    assert scaling.factor == pytest.approx(2 * y.square().mean().sqrt().item(), rel=1e-5)
    torch.testing.assert_close(scaling(prediction).std, scaling.factor * prediction.std)


@pytest.mark.parametrize(
    "likelihood", [Gaussian(4.0), StudentT(4.0, dof=5.0), InputNoiseGaussian(), InputNoiseStudentT(5.0)]
)
def test_a_spread_scales_everything_about_the_mean(likelihood):
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(6, 10, 2, dtype=torch.float64, generator=generator)
    samples = samples if isinstance(likelihood, InputNoiseGaussian | InputNoiseStudentT) else samples[..., :1]
    before = Regression(samples, likelihood)
    after = SpreadScaling(3.0)(before)
    for name in ("epistemic", "aleatoric", "std"):
        torch.testing.assert_close(getattr(after, name), 3 * getattr(before, name))
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(after.quantile(0.9) - after.mean, 3 * (before.quantile(0.9) - before.mean))
    y = torch.randn(10, dtype=torch.float64, generator=generator)[:, None]
    stretched = before.mean + 3 * (y - before.mean)
    torch.testing.assert_close(after.log_prob(stretched), before.log_prob(y) - math.log(3))


def test_wrong_use_is_explained():
    numbers = Regression(torch.zeros(1, 3), Gaussian(1.0))
    with pytest.raises(TypeError, match="got a Regression"):
        TemperatureScaling.fit(numbers, torch.zeros(3))
    with pytest.raises(TypeError, match="the spread of Poisson cannot be scaled"):
        SpreadScaling(2.0)(Regression(torch.zeros(1, 3), Poisson()))
    with pytest.raises(ValueError, match=r"factor=0.0 is not valid"):
        SpreadScaling(0.0)
    for classes in (torch.zeros(2, 0, 3), torch.full((2, 4, 3), torch.nan)):
        with pytest.raises(ValueError, match="no scale gives the targets a finite likelihood"):
            TemperatureScaling.fit(Classes(classes, Categorical()), torch.zeros(classes.shape[1], dtype=torch.long))


def test_targets_may_be_arrays_or_columns_of_a_table():
    y, labels = np.linspace(-1, 1, 60), np.arange(60) % 3
    numbers = Regression(torch.randn(8, 60, 1, dtype=torch.float64), Gaussian(4.0))
    classes = Classes(torch.randn(8, 60, 3, dtype=torch.float64), Categorical())
    for convert in (np.asarray, pd.Series):
        assert SpreadScaling.fit(numbers, convert(y)) == SpreadScaling.fit(numbers, torch.tensor(y))
        assert TemperatureScaling.fit(classes, convert(labels)) == TemperatureScaling.fit(classes, torch.tensor(labels))
        assert torch.equal(
            ConformalIntervals.fit(numbers, convert(y)).radius(),
            ConformalIntervals.fit(numbers, torch.tensor(y)).radius(),
        )
        folds = [(numbers, convert(y))] * 2
        CrossConformalIntervals.fit(folds).interval([numbers] * 2)
        sets = ConformalSets.fit(classes, convert(labels)).sets(classes)
        assert torch.equal(sets, ConformalSets.fit(classes, torch.tensor(labels)).sets(classes))


def test_weights_may_be_columns_lists_or_have_an_axis_more():
    """Weights [n, 1] against log-probabilities [n] would count every row with the weights of all."""
    labels, weight = torch.arange(60) % 3, torch.arange(60, dtype=torch.float64)
    classes = Classes(torch.randn(8, 60, 3, dtype=torch.float64), Categorical())
    expected = TemperatureScaling.fit(classes, labels, weight)
    log_p = classes.log_prob_samples(labels)
    mean = (classes.log_prob(labels) * weight).sum() / weight.sum()
    for given in (weight, weight[:, None], weight.numpy(), pd.Series(weight.numpy()), weight.tolist()):
        assert TemperatureScaling.fit(classes, labels, given) == expected
        torch.testing.assert_close(metrics.log_likelihood(log_p, given), mean)
    for fit in (lambda w: TemperatureScaling.fit(classes, labels, w), lambda w: metrics.log_likelihood(log_p, w)):
        with pytest.raises(ValueError, match="do not fit"):
            fit(weight[1:])


def test_the_spread_of_a_transformed_target_is_not_scaled():
    """A factor on the outputs for log y would move the mean of y."""
    from vadam.estimators import VadamRegressor

    X = np.random.default_rng(0).normal(size=(60, 1))
    model = VadamRegressor(target_transform="log", tune=False, epochs=2, members=1, random_state=0).fit(
        X, np.exp(X[:, 0])
    )
    with pytest.raises(TypeError, match="of a transformed target, which a factor would not stretch about its mean"):
        SpreadScaling(2.0)(model.predict_distribution(X))
