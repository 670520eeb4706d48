"""The estimators as scikit-learn and their users see them."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from vadam.ensemble import Vadam
from vadam.ensemble.calibration import noise_precision
from vadam.estimators import VadamClassifier, VadamRegressor
from vadam.estimators.family import FAMILY

QUICK = {"tune": False, "random_state": 0}
FAST = {"tune": False, "epochs": 15, "members": 1, "predict_samples": 20}


@pytest.mark.filterwarnings("ignore:Skipping check_array_api_input")
@parametrize_with_checks([VadamRegressor(**FAST), VadamClassifier(**FAST)])
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def line(n=120, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1, 10, 100] + 5
    return X, 2 * X[:, 0] - 0.1 * X[:, 1] + 50 + noise * rng.normal(size=n)


@pytest.mark.parametrize("optimizer", FAMILY)
def test_every_optimizer_regresses(optimizer):
    X, y = line()
    setting = {"noise_precision": 20.0, "prior_precision": 1.0, "epochs": 80, "samples": 2}
    model = VadamRegressor(optimizer=optimizer, **setting, **QUICK).fit(X, y)
    assert model.score(*line(seed=1)) > 0.9


@pytest.mark.parametrize("optimizer", FAMILY)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_optimizer_classifies(optimizer, classes):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X[y < classes], y[y < classes]
    model = VadamClassifier(optimizer=optimizer, prior_precision=1.0, epochs=60, samples=2, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.9
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(X), classes)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-12)
    labels = np.asarray(y)
    expected = np.log(probabilities[np.arange(len(X)), labels]).mean()
    assert model.log_likelihood(X, labels) == pytest.approx(expected)


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
    """It is not that of the training, nor the same for one posterior and for five; a refitted model keeps it."""
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
    method = Vadam(lr=0.02, init_precision=start)
    model = VadamRegressor(optimizer=method, budget=11, folds=2, epochs=2, members=1, random_state=0).fit(*line(40))
    assert ("temperature" in model.tuned_.point) == searched
    for trial in model.tuned_.trials:
        assert trial.point["prior_precision"] / trial.point.get("temperature", 1.0) <= (start or math.inf) * (1 + 1e-9)


def test_folds_and_whole_are_trained_alike(monkeypatch):
    """1,600 rows are many, the 1,280 of a fold are not: the epochs are those of the whole."""
    seen = []
    monkeypatch.setattr("vadam.estimators.base.tune", lambda cells, *a, **k: seen.extend(cells[""]) or stop())

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VadamRegressor(random_state=0).fit(*line(1600))
    assert {member.epochs for member in seen} == {308}  # 13 steps each, 4,000 in all
    assert {len(member.train) for member in seen} == {1280}


def test_colder_posteriors_are_narrower():
    X, y = line()
    cold, warm = (
        VadamRegressor(temperature=T, optimizer=Vadam(lr=0.02, betas=(0.9, 0.99)), members=1, epochs=60, **QUICK).fit(
            X, y
        )
        for T in (0.01, 1.0)
    )
    assert cold._outputs(X).std(0).mean() < 0.5 * warm._outputs(X).std(0).mean()


@pytest.mark.parametrize("optimizer", FAMILY)
def test_every_optimizer_can_be_tuned(optimizer):
    X, y = line(40)
    model = VadamRegressor(optimizer=optimizer, budget=12, folds=2, epochs=3, members=1, random_state=0).fit(X, y)
    assert len(model.tuned_.trials) == 12
    assert ("temperature" in model.tuned_.point) == (optimizer not in ("map", "mc-dropout", "vadagrad"))


def test_a_prior_narrower_than_the_start():
    X, y = line()
    assert VadamRegressor(prior_precision=1e5, epochs=3, **QUICK).fit(X, y).prior_precision_ == 1e5
    wide = VadamRegressor(optimizer="bbvi", prior_precision=100.0, **QUICK)._method()
    assert wide.init_precision == 10.0  # which BBVI may


def test_quantiles_are_those_of_the_predictive_distribution():
    X, y = line()
    model = VadamRegressor(**QUICK).fit(X, y)
    levels = np.array([0.01, 0.25, 0.5, 0.9])
    quantiles = model.predict_quantiles(X[:7], levels)
    assert quantiles.shape == (7, 4)
    prediction = model._prediction(X[:7])
    import torch

    for k, level in enumerate(levels):
        np.testing.assert_allclose(prediction.cdf(torch.tensor(quantiles[:, k])), level, atol=1e-9)
    mean, std = model.predict(X[:7], return_std=True)
    noise = model.noise_precision**-0.5 * y.std(ddof=1)
    assert (std > noise).all()
    np.testing.assert_allclose(quantiles[:, 2], mean, atol=0.2 * std.max())


def test_repeatable():
    X, y = line(60)
    one, two = (VadamRegressor(tune=True, budget=2, folds=2, epochs=5, random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(one.predict(X), one.predict(X))
    other = VadamRegressor(tune=False, epochs=5, random_state=4).fit(X, y)
    assert not np.array_equal(one.predict(X), other.predict(X))


def test_members_make_a_mixture():
    X, y = line(60)
    model = VadamRegressor(members=3, epochs=10, predict_samples=20, **QUICK).fit(X, y)
    assert len(model.stack_) == 3
    assert model._prediction(X).samples.shape == (60, 60)
    first = VadamRegressor(members=1, epochs=10, predict_samples=20, **QUICK).fit(X, y)
    outputs = model.stack_.outputs(X, 20)
    np.testing.assert_allclose(outputs[0], first.stack_.outputs(X, 20)[0], atol=1e-4)
    np.testing.assert_allclose(model.predict(X), outputs.mean((0, 1)).squeeze(-1))


def test_inside_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), VadamRegressor(epochs=30, noise_precision=2.0, **QUICK))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.35


def test_pandas_and_feature_names():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train, test, y_train, _ = train_test_split(X, y, random_state=0)
    model = VadamRegressor(epochs=5, **QUICK).fit(train, y_train)
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.predict(test).shape == (len(test),)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(test[test.columns[::-1]])


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (VadamRegressor(members=2, epochs=5, **QUICK), True),
        (VadamRegressor(optimizer="mc-dropout", epochs=5, dropout=0.2, **QUICK), False),
        (VadamRegressor(optimizer="map", epochs=5, **QUICK), False),
        (VadamRegressor(optimizer=Vadam(lr=0.02, samples=2), epochs=5, activation="tanh", **QUICK), False),
        (VadamRegressor(hidden=(8, 4), epochs=5, tune=False, random_state=np.random.RandomState(0)), False),
        (VadamClassifier(epochs=5, **QUICK), True),
        (VadamClassifier(optimizer="vadagrad", epochs=5, **QUICK), False),
    ],
    ids=lambda value: str(value) if isinstance(value, bool) else f"{type(value).__name__}-{value.optimizer}",
)
def test_saved_and_loaded(tmp_path, estimator, names):
    if isinstance(estimator, VadamClassifier):
        X, y = load_iris(return_X_y=True, as_frame=True)
        y = np.array(["one", "two", "three"])[y]
    else:
        X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X if names else X.to_numpy()
    model = clone(estimator).fit(X, y)
    path = tmp_path / "model.safetensors"
    model.save(path)
    assert b"pickle" not in path.read_bytes()
    loaded = type(estimator).load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    ours, theirs = loaded.get_params(), model.get_params()
    if not isinstance(theirs["random_state"], int):
        del ours["random_state"], theirs["random_state"]
    assert ours == theirs
    assert loaded.prior_precision_ == model.prior_precision_
    assert hasattr(loaded, "feature_names_in_") == names
    other = VadamClassifier if isinstance(estimator, VadamRegressor) else VadamRegressor
    with pytest.raises(ValueError, match=f"holds {type(estimator).__name__}, not a {other.__name__}"):
        other.load(path)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_constant_features_change_nothing_but_the_architecture():
    X, y = line()
    X = np.column_stack([X, np.full(len(X), 7.3), np.zeros(len(X))])
    model = VadamRegressor(noise_precision=20.0, prior_precision=1.0, **QUICK).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, y) > 0.9


def test_constant_target():
    model = VadamRegressor(epochs=5, **QUICK).fit(line()[0], np.full(120, 4.0))
    assert np.isfinite(model.predict(line()[0], return_std=True)).all()


@pytest.mark.parametrize(
    ("estimator", "data", "message"),
    [
        (VadamRegressor(tune=False), lambda X, y: (np.where(X > 20, np.nan, X), y), "Input X contains NaN"),
        (VadamRegressor(tune=False), lambda X, y: (X, np.where(y > 50, np.inf, y)), "Input y contains infinity"),
        (VadamClassifier(tune=False), lambda X, y: (X, np.full(len(X), "a")), "one class only, .*'a'"),
        (VadamClassifier(tune=False), lambda X, y: (X, y), "Unknown label type: continuous"),
        (VadamRegressor(folds=6), lambda X, y: (X[:5], y[:5]), "folds=6 is not valid for n_samples=5"),
        (VadamRegressor(folds=1), lambda X, y: (X, y), "folds=1 is not valid"),
        (VadamRegressor(members=0, tune=False), lambda X, y: (X, y), "members=0 is not valid"),
        (VadamRegressor(prior_precision=0), lambda X, y: (X, y), "prior_precision=0 is not valid: give a positive"),
        (VadamRegressor(hidden=50), lambda X, y: (X, y), r"hidden=50 is not valid: .* e.g. \(50,\)"),
        (VadamRegressor(optimizer="sgd"), lambda X, y: (X, y), "optimizer='sgd' is not valid: choose one of 'vadam'"),
        (VadamRegressor(activation="gelu"), lambda X, y: (X, y), "activation='gelu' is not valid"),
        (VadamRegressor(tune=False, noise_precision=-1.0), lambda X, y: (X, y), "noise_precision=-1.0"),
        (VadamRegressor(tune=False, epochs=5, lr=1e30), lambda X, y: (X, y), "the training diverged .* smaller lr"),
    ],
)
def test_bad_input(estimator, data, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(*data(*line()))


def test_not_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        VadamRegressor().predict(line()[0])
    with pytest.raises(NotFittedError):
        VadamClassifier().save(tmp_path / "model.safetensors")


def test_rare_class():
    """A class with fewer rows than folds: it cannot be in every fold, and the fit goes on."""
    X, y = load_iris(return_X_y=True)
    X, y = X[:103], y[:103]
    model = VadamClassifier(budget=2, epochs=5, random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (103, 3)


def test_processes_change_nothing():
    X, y = line(40)
    setting = {"budget": 2, "folds": 2, "epochs": 3, "random_state": 0}
    one, two = (VadamRegressor(n_jobs=n, **setting).fit(X, y).predict(X) for n in (1, 2))
    np.testing.assert_allclose(one, two, rtol=1e-5)


def test_pandas_is_optional_in_the_file(tmp_path):
    """Names that are not text, as scikit-learn refuses them, never reach the file."""
    X, y = line(30)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = VadamRegressor(epochs=2, **QUICK).fit(frame, y)
    model.save(tmp_path / "m.safetensors")
    loaded = VadamRegressor.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
