"""The search of ``fit``, the final fit, and the settings that a refit keeps."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone

from estimators.line import line
from vadam.ensemble import MLP, Member, Method, Stack, train
from vadam.estimators import VadamClassifier, VadamRegressor, base, regressor
from vadam.estimators.noise import PredictiveNoise, fit_noise
from vadam.estimators.optimizers import optimizer_names
from vadam.estimators.search import random_settings, wild


def test_tuning_calibrates():
    """A line with noise of deviation 0.5, untuned far too sure of itself: 400 new targets, a share's deviation is 0.015."""
    X, y = line(200)
    X_new, y_new = line(400, seed=1)
    setting = {"random_state": 0, "epochs": 40, "samples": 3, "noise_precision": 200.0}

    def coverage(model):
        low, high = model.predict_quantiles(X_new, (0.05, 0.95)).T
        return np.mean((low <= y_new) & (y_new <= high))

    assert coverage(VadamRegressor(tune=False, **setting).fit(X, y)) < 0.8
    model = VadamRegressor(budget=14, **setting).fit(X, y)
    assert 0.84 < coverage(model) < 0.96
    last = [trial for trial in model.search_.trials if trial.steps == model.search_.trials[-1].steps]
    assert len(model.search_.trials) == 14 + len(last) == 14 + 4  # the better quarter for longer
    assert model.search_.value == max(trial.value for trial in last)
    assert model.prior_precision_ == model.search_.best.numbers["prior_precision"]
    assert model.temperature_ == model.search_.best.numbers["temperature"]
    truth = -0.5 * math.log(2 * math.pi * math.e * 0.25)  # of the line itself
    assert truth - 0.25 < model.log_likelihood(X_new, y_new) < truth + 0.1


@pytest.mark.parametrize("kind", [VadamRegressor, VadamClassifier])
def test_a_long_table_is_calibrated_on_as_many_rows_as_fit_into_memory(kind, monkeypatch: pytest.MonkeyPatch):
    """The outputs of all held-out rows were kept at once, of millions of rows more than the memory."""
    X, y = line(400)
    y = y if kind is VadamRegressor else (y > np.median(y)).astype(int)
    rows = []
    outputs = Stack.outputs
    monkeypatch.setattr(Stack, "outputs", lambda *args: rows.append(len(args[1])) or outputs(*args))
    settings = {"random_state": 0, "budget": 2, "epochs": 5}
    every = kind(**settings).fit(X, y)
    rows.clear()
    monkeypatch.setattr(base, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(base, "FLOATS_OF_HELD_OUT_ROWS", 1)
    model = kind(**settings).fit(X, y)
    assert sum(rows[-5:]) == 100
    assert model.log_likelihood(X, y) == pytest.approx(every.log_likelihood(X, y), abs=0.05)


@pytest.mark.parametrize("members", [1, VadamRegressor().members])
def test_a_mixture_is_calibrated_by_mixtures_of_as_many_networks(members: int, monkeypatch: pytest.MonkeyPatch):
    """Networks per fold, as the calibration sees them; with fewer than the model has, intervals hold too many rows."""
    seen, fit_noise = [], regressor.held_out_noise

    def recording(problem, setting, parts, samples, **given):
        seen.extend(parts)
        return fit_noise(problem, setting, parts, samples, **given)

    monkeypatch.setattr(regressor, "held_out_noise", recording)
    model = VadamRegressor(members=members, budget=1, epochs=1, folds=2, random_state=0).fit(*line(40))
    assert [len(stack) for stack, _ in seen] == [len(model.stack_)] * 2 == [members] * 2


def test_the_noise_of_predictions_is_fitted_and_kept():
    """The predictive noise differs from the training noise and between one and five posteriors; refits and clones keep it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    setting = {"random_state": 0, "budget": 3, "epochs": 200, "folds": 3, "predict_samples": 30, "noise": "constant"}
    one, five = (VadamRegressor(members=members, **setting).fit(X, y) for members in (1, 5))
    assert one.setting_ == five.setting_
    assert one.predictive_noise_.scale != 1.0
    assert five.predictive_noise_ != one.predictive_noise_
    assert len(five.stack_) == 5
    again = five.refit(X[:40], y[:40])
    assert (again.predictive_noise_, again.prior_precision_, again.temperature_) == (
        five.predictive_noise_,
        five.prior_precision_,
        five.temperature_,
    )
    np.testing.assert_array_equal(again.held_out_pits_, five.held_out_pits_)
    assert clone(again).fit(X[20:], y[20:]).predictive_noise_ == five.predictive_noise_
    assert again.tune is False
    assert five.tune is True
    assert again.stack_.noise_precision[0] == pytest.approx(five.setting_.numbers["noise_precision"])


def test_the_noise_is_fitted_to_what_each_fold_leaves_out(monkeypatch):
    """Targets without any signal, networks that can learn them by heart: seen rows would seem to have no noise."""
    monkeypatch.setattr("vadam.estimators.base.PRIOR_PRECISIONS", (1e-3, 2e-3))
    monkeypatch.setattr("vadam.estimators.base.TEMPERATURES", (0.007, 0.01))
    monkeypatch.setattr("vadam.estimators.regressor.NOISE_PRECISIONS", (1000.0, 2000.0))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    setting = {"budget": 1, "folds": 4, "epochs": 600, "members": 2, "predict_samples": 10, "noise": "constant"}
    model = VadamRegressor(random_state=0, **setting).fit(X, y)
    assert len(model.held_out_pits_) == 40
    error = np.mean((model.predict(X) - y) ** 2) / np.var(y, ddof=1)
    assert error < 0.5  # by heart
    assert model.predict_distribution(X).aleatoric.mean() > 0.7 * y.std()


@pytest.mark.parametrize("tune", [False, True])
def test_the_noise_of_predictions_may_be_given(tmp_path, tune):
    X, y = line(40)
    setting = {"epochs": 2, "budget": 1, "folds": 2, "members": 1, "random_state": 0}
    model = VadamRegressor(noise_scale=np.float32(1.5), noise_dof=5, tune=tune, **setting).fit(X, y)
    assert model.predictive_noise_ == PredictiveNoise(1.5, 5.0)
    model.save(tmp_path / "model.safetensors")
    loaded = VadamRegressor.load(tmp_path / "model.safetensors")
    assert loaded.noise_scale == 1.5
    assert loaded.predictive_noise_ == model.predictive_noise_
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))


def test_a_loaded_model_is_refitted_with_what_was_found(tmp_path):
    X, y = line(60)
    model = VadamRegressor(optimizer="mc-dropout", budget=3, folds=2, epochs=5, members=1, random_state=0).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    again = VadamRegressor.load(tmp_path / "model.safetensors").refit(X, y)
    assert again.dropout == pytest.approx(model.setting_.numbers["dropout"])
    assert again.noise_precision == pytest.approx(model.setting_.numbers["noise_precision"])
    assert again.predictive_noise_ == model.predictive_noise_


@pytest.mark.parametrize(("start", "searched"), [(0.5, False), (20.0, False), (200.0, True), (None, True)])
def test_the_search_stays_where_the_posterior_can_start(start, searched):
    method = Method("vadam", lr=0.02, init_precision=start)
    model = VadamRegressor(optimizer=method, budget=11, folds=2, epochs=2, members=1, random_state=0, temperature=1.0)
    model.fit(*line(40))
    temperatures = {trial.setting.numbers["temperature"] for trial in model.search_.trials}
    assert (len(temperatures) > 1) == searched
    for trial in model.search_.trials:
        numbers = trial.setting.numbers
        assert numbers["prior_precision"] / numbers["temperature"] <= (start or math.inf) * (1 + 1e-9)


def test_hopeless_settings_are_stopped_early():
    """Most of the steps go to few settings, and the winner has been trained for the longest."""
    model = VadamRegressor(budget=12, epochs=100, members=1, random_state=0).fit(*line(120))
    lengths = [trial.steps for trial in model.search_.trials]
    assert lengths == [lengths[0]] * 12 + [lengths[-1]] * 3
    assert lengths[-1] == pytest.approx(2 * lengths[0], abs=1)
    first = sorted(model.search_.trials[:12], key=lambda trial: -trial.value)
    assert {id(trial.setting) for trial in first[:3]} == {id(trial.setting) for trial in model.search_.trials[12:]}


@pytest.mark.parametrize("kinds", [2, 3, 4, 6])
def test_every_kind_is_tried_with_low_and_high_numbers(kinds):
    names = [("gaussian", str(k)) for k in range(kinds)]
    space = {"noise_precision": (1.0, 100.0), "prior_precision": (1.0, 100.0)}
    settings = random_settings([*names, names[0]], space, {}, 4 * (kinds + 1), seed=0)
    for _, transform in names:
        own = [setting.numbers for setting in settings if setting.transform == transform]
        assert len({numbers["noise_precision"] for numbers in own}) == len(own) >= 4
        for name in space:
            assert min(numbers[name] for numbers in own) < 10 < max(numbers[name] for numbers in own)


def test_a_score_is_that_of_the_prediction():
    """The search maximises the mean log density of held-out rows under the fitted noise."""
    rng = np.random.default_rng(0)
    outputs = torch.tensor(rng.normal(size=(20, 400, 2)))
    y = torch.tensor(3 * rng.standard_t(3, size=(400, 1)))
    fitted = fit_noise([(outputs, y)])
    log_p = fitted.noise.prediction(outputs).log_prob(y).mean().item()
    assert fitted.log_likelihood == pytest.approx(log_p, abs=1e-4)
    for scale, dof in ((1.1, 1.0), (1 / 1.1, 1.0), (1.0, 3.0)):
        other = PredictiveNoise(fitted.noise.scale * scale, min(fitted.noise.dof * dof, 1e6))
        assert other.prediction(outputs).log_prob(y).mean() <= log_p + 1e-3
    assert fitted.noise.dof < 30
    plain = fit_noise([(outputs, torch.tensor(rng.normal(size=(400, 1))))], dof=math.inf)
    assert math.isinf(plain.noise.dof)


@pytest.mark.parametrize("optimizer", optimizer_names())
def test_every_optimizer_can_be_tuned(optimizer):
    X, y = line(40)
    model = VadamRegressor(optimizer=optimizer, budget=12, folds=2, epochs=3, members=1, random_state=0).fit(X, y)
    assert len({id(trial.setting) for trial in model.search_.trials}) == 12
    temperatures = {trial.setting.numbers.get("temperature") for trial in model.search_.trials}
    assert (len(temperatures) > 1) == (optimizer not in ("map", "mc-dropout", "vadagrad"))


def test_a_member_that_ran_away_is_seen():
    """Weights far from any solution are finite, and explain the training rows worse than their mean."""
    X, y = line(60)
    X = (X - X.mean(0)) / X.std(0)
    members = [Member(X, y, seed=seed, prior_precision=1.0, noise_precision=10.0) for seed in range(2)]
    stack = train(members, MLP(3, 5, 1), Method("vadam", lr=0.03, init_precision=1e4), epochs=60, compiled=False).stack
    assert wild(stack, members).tolist() == [False, False]
    stack.mean["2.weight"][1] *= 1e3
    assert stack.finite.all()
    assert wild(stack, members).tolist() == [False, True]


@pytest.mark.parametrize("given", [{"noise_dof": 4.0}, {"noise_scale": 1.0}])
def test_the_number_of_the_noise_that_is_not_given_is_fitted(given):
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (300, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * random.standard_t(4, 300)
    setting = {"random_state": 0, "budget": 2, "members": 2, "epochs": 60, "noise_precision": 30.0}
    model = VadamRegressor(**setting, **given).fit(X[:200], y[:200])
    noise = model.predictive_noise_
    assert noise.dof == 4.0 or noise.scale == 1.0
    assert noise.scale != 1.0 or math.isfinite(noise.dof)
    if "noise_dof" in given:
        low, high = model.predict_quantiles(X[200:], (0.05, 0.95)).T
        assert np.mean((low <= y[200:]) & (y[200:] <= high)) > 0.8
