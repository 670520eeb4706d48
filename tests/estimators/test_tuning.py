"""The search of ``fit``, the final fit, and the settings that a refit keeps."""

import math

import numpy as np
import pytest
from sklearn.base import clone

from estimators.line import line
from vadam.ensemble import Method
from vadam.estimators import VadamRegressor
from vadam.estimators.family import optimizer_names
from vadam.tuning import noise_precision


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
    assert len(model.tuned_.trials) == 14
    assert model.tuned_.value == max(trial.value for trial in model.tuned_.trials)
    assert (model.prior_precision_, model.temperature_) == (
        model.tuned_.point["prior_precision"],
        model.tuned_.point["temperature"],
    )
    truth = -0.5 * math.log(2 * math.pi * math.e * 0.25)  # of the line itself
    assert truth - 0.25 < model.log_likelihood(X_new, y_new) < truth + 0.1


def test_the_noise_of_predictions_is_fitted_and_kept():
    """The predictive noise differs from the training noise and between one and five posteriors; refits and clones keep it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    setting = {"random_state": 0, "budget": 3, "epochs": 60, "folds": 3, "predict_samples": 30}
    one, five = (VadamRegressor(members=members, **setting).fit(X, y) for members in (1, 5))
    assert one.tuned_.point == five.tuned_.point
    assert one.noise_precision_ != one.tuned_.point["noise_precision"]
    assert five.noise_precision_ != one.noise_precision_
    assert len(five.stack_) == 5
    again = five.refit(X[:40], y[:40])
    assert (again.noise_precision_, again.prior_precision_, again.temperature_) == (
        five.noise_precision_,
        five.prior_precision_,
        five.temperature_,
    )
    assert clone(again).fit(X[20:], y[20:]).noise_precision_ == five.noise_precision_
    assert again.tune is False
    assert five.tune is True
    assert again.stack_.noise_precision[0] == pytest.approx(five.tuned_.point["noise_precision"])


def test_the_noise_is_fitted_to_what_each_fold_leaves_out(monkeypatch):
    """Targets without any signal, networks that can learn them by heart: seen rows would seem to have no noise."""
    fitted = []

    def watched(predictions):
        fitted.extend(predictions)
        return noise_precision(predictions)

    monkeypatch.setattr("vadam.estimators.base.noise_precision", watched)
    monkeypatch.setattr("vadam.estimators.base.PRIOR_PRECISIONS", (1e-3, 2e-3))
    monkeypatch.setattr("vadam.estimators.base.TEMPERATURES", (0.007, 0.01))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    model = VadamRegressor(budget=1, folds=4, epochs=600, members=2, predict_samples=10, random_state=0).fit(X, y)
    assert sorted(np.concatenate([targets[:, 0] for _, targets in fitted])) == sorted(y)
    error = np.mean((model.predict(X) - y) ** 2) / np.var(y, ddof=1)
    assert error < 0.5  # by heart
    assert model.noise_precision_ < 1.0


@pytest.mark.parametrize("tune", [False, True])
def test_the_noise_of_predictions_may_be_given(tmp_path, tune):
    X, y = line(40)
    setting = {"epochs": 2, "budget": 1, "folds": 2, "members": 1, "random_state": 0}
    model = VadamRegressor(predictive_noise_precision=np.float32(1.5), tune=tune, **setting).fit(X, y)
    assert model.noise_precision_ == 1.5 != float(model.stack_.noise_precision[0])
    model.save(tmp_path / "model.safetensors")
    assert VadamRegressor.load(tmp_path / "model.safetensors").predictive_noise_precision == 1.5


def test_a_loaded_model_is_refitted_with_what_was_found(tmp_path):
    X, y = line(60)
    model = VadamRegressor(optimizer="mc-dropout", budget=3, folds=2, epochs=5, members=1, random_state=0).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    again = VadamRegressor.load(tmp_path / "model.safetensors").refit(X, y)
    assert again.dropout == pytest.approx(model.tuned_.point["dropout"])
    assert again.noise_precision == pytest.approx(model.tuned_.point["noise_precision"])
    assert again.noise_precision_ == model.noise_precision_


@pytest.mark.parametrize(("start", "searched"), [(0.5, False), (50.0, False), (200.0, True), (None, True)])
def test_the_search_stays_where_the_posterior_can_start(start, searched):
    method = Method("vadam", lr=0.02, init_precision=start)
    model = VadamRegressor(optimizer=method, budget=11, folds=2, epochs=2, members=1, random_state=0).fit(*line(40))
    assert ("temperature" in model.tuned_.point) == searched
    for trial in model.tuned_.trials:
        assert trial.point["prior_precision"] / trial.point.get("temperature", 1.0) <= (start or math.inf) * (1 + 1e-9)


def test_folds_and_whole_are_trained_alike(monkeypatch):
    """1,100 rows are many, the 880 of a fold are not: the epochs are those of the whole."""
    seen = []
    monkeypatch.setattr("vadam.estimators.base.tune", lambda cells, *a, **k: seen.extend(cells[""]) or stop())

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VadamRegressor(random_state=0).fit(*line(1100))
    assert {member.epochs for member in seen} == {445}  # 9 steps each, 4,000 in all
    assert {len(member.train) for member in seen} == {880}


@pytest.mark.parametrize("optimizer", optimizer_names())
def test_every_optimizer_can_be_tuned(optimizer):
    X, y = line(40)
    model = VadamRegressor(optimizer=optimizer, budget=12, folds=2, epochs=3, members=1, random_state=0).fit(X, y)
    assert len(model.tuned_.trials) == 12
    assert ("temperature" in model.tuned_.point) == (optimizer not in ("map", "mc-dropout", "vadagrad"))
