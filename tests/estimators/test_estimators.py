"""The estimators as scikit-learn and their users see them."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators.line import line
from vadam.ensemble import Method
from vadam.estimators import VadamClassifier, VadamRegressor
from vadam.estimators.optimizers import SETTINGS

QUICK = {"tune": False, "random_state": 0}
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "rows are shared out to minibatches at random, so a repeated row and a "
    "row of weight two take different ways; in one minibatch they are the same (tests/ensemble/test_weights_and_targets.py)",
}
FAST = {"tune": False, "epochs": 15, "members": 1, "predict_samples": 20}


@pytest.mark.filterwarnings("ignore:Skipping check_array_api_input")
@parametrize_with_checks(
    [VadamRegressor(**FAST), VadamClassifier(**FAST)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("optimizer", SETTINGS)
def test_every_optimizer_regresses(optimizer):
    X, y = line()
    setting = {"noise_precision": 20.0, "prior_precision": 1.0, "epochs": 80, "samples": 2}
    model = VadamRegressor(optimizer=optimizer, **setting, **QUICK).fit(X, y)
    assert model.score(*line(seed=1)) > 0.9


@pytest.mark.parametrize("optimizer", SETTINGS)
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


def test_colder_posteriors_are_narrower():
    X, y = line()
    cold, warm = (
        VadamRegressor(
            temperature=T, optimizer=Method("vadam", lr=0.02, betas=(0.9, 0.99)), members=1, epochs=60, **QUICK
        ).fit(X, y)
        for T in (0.01, 1.0)
    )
    assert cold.predict_distribution(X).epistemic.mean() < 0.5 * warm.predict_distribution(X).epistemic.mean()


def test_data_that_count_more_make_posteriors_narrower():
    """``data_weight`` is an argument of the method that trains the members."""
    X, y = line()
    once, often = (
        VadamRegressor(
            optimizer=Method("vadam", lr=0.02, betas=(0.9, 0.99), data_weight=weight), members=1, epochs=60, **QUICK
        ).fit(X, y)
        for weight in (1.0, 100.0)
    )
    assert often.predict_distribution(X).epistemic.mean() < 0.5 * once.predict_distribution(X).epistemic.mean()


def test_a_prior_narrower_than_the_start():
    X, y = line()
    assert VadamRegressor(prior_precision=1e5, epochs=3, **QUICK).fit(X, y).prior_precision_ == 1e5
    wide = VadamRegressor(optimizer="bbvi", prior_precision=100.0, **QUICK)._method(0.01)(100)
    assert wide.settings["init_precision"] == 10.0  # which BBVI may


def test_quantiles_are_those_of_the_predictive_distribution():
    X, y = line()
    model = VadamRegressor(**QUICK).fit(X, y)
    levels = np.array([0.01, 0.25, 0.5, 0.9])
    quantiles = model.predict_quantiles(X[:7], levels)
    assert quantiles.shape == (7, 4)
    prediction = model.predict_distribution(X[:7])
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
    assert model.predict_distribution(X).samples.shape == (60, 60, 2)
    first = VadamRegressor(members=1, epochs=10, predict_samples=20, **QUICK).fit(X, y)
    squeezed = model._squeezed(X)
    outputs = model.stack_.outputs(squeezed, 20)
    np.testing.assert_allclose(outputs[0], first.stack_.outputs(squeezed, 20)[0], atol=1e-3)
    np.testing.assert_allclose(model.predict(X), outputs.mean((0, 1)).squeeze(-1))


def test_inside_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), VadamRegressor(epochs=30, noise_precision=2.0, **QUICK))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.35


def test_a_notebook_shows_the_arguments():
    shown = VadamRegressor(budget=3)._repr_html_()
    assert "VadamRegressor" in shown
    assert "budget" in shown


def test_pandas_and_feature_names():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train, test, y_train, _ = train_test_split(X, y, random_state=0)
    model = VadamRegressor(epochs=5, **QUICK).fit(train, y_train)
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.predict(test).shape == (len(test),)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(test[test.columns[::-1]])


def test_frames_and_arrays_of_the_same_columns_predict_alike(tmp_path):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X.insert(2, "constant", 1.0)  # left out of the network, but not of the array
    of_frame = VadamRegressor(epochs=5, **QUICK).fit(X, y)
    of_array = VadamRegressor(epochs=5, **QUICK).fit(X.to_numpy(), y)
    for model, same, other in ((of_frame, X, X.to_numpy()), (of_array, X.to_numpy(), X)):
        model.save(tmp_path / "model")
        expected = model.predict(same)
        for fitted in (model, VadamRegressor.load(tmp_path / "model")):
            with pytest.warns(UserWarning, match="feature names"):
                np.testing.assert_array_equal(fitted.predict(other), expected)


def test_an_array_predicts_as_a_frame_of_numbered_columns_of_which_one_is_left_out(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 1] = 5.0
    model = VadamRegressor(epochs=2, members=1, tune=False, random_state=0).fit(pd.DataFrame(X), X[:, 2])
    model.save(tmp_path / "m.safetensors")
    loaded = VadamRegressor.load(tmp_path / "m.safetensors")
    for found in (model.predict(X), loaded.predict(X), loaded.predict(pd.DataFrame(X)[[2, 1, 0]])):
        np.testing.assert_array_equal(found, model.predict(pd.DataFrame(X)))


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (VadamRegressor(members=2, epochs=5, **QUICK), True),
        (VadamRegressor(optimizer="mc-dropout", epochs=5, dropout=0.2, **QUICK), False),
        (VadamRegressor(optimizer="map", epochs=5, **QUICK), False),
        (VadamRegressor(optimizer=Method("vadam", lr=0.02, samples=2), epochs=5, activation="tanh", **QUICK), False),
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


@pytest.mark.parametrize(
    "arguments",
    [
        {"epochs": np.int64(3), "random_state": np.int64(3)},
        {"hidden": (np.int64(3),), "prior_precision": np.float32(3), "lr": np.float32(0.01)},
        {"hidden": (), "optimizer": Method("vadam", lr=np.float32(0.02), samples=2)},
        {"tune": np.bool_(True), "budget": np.int64(2), "folds": np.int64(2)},
    ],
)
def test_numbers_of_numpy_are_as_good(tmp_path, arguments):
    X, y = line(40)
    model = VadamRegressor(**{"epochs": 2, "members": 1, **QUICK, **arguments}).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    loaded = VadamRegressor.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert isinstance(loaded.tune, bool)


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
        (VadamRegressor(tune=False), lambda X, y: (np.where(X > 20, np.inf, X), y), "Input X contains infinity"),
        (
            VadamRegressor(noise="loud"),
            lambda X, y: (X, y),
            "noise='loud' is not valid: choose one of 'auto', 'constant'",
        ),
        (VadamRegressor(noise_dof=1.0), lambda X, y: (X, y), "noise_dof=1.0 is not valid: give a number above 2"),
        (
            VadamRegressor(target_transform="quantile"),
            lambda X, y: (X, np.zeros(len(X))),
            "needs targets that differ, but nearly all are 0: choose 'auto'",
        ),
        (
            VadamRegressor(tune=False),
            lambda X, y: (X, pd.Series(pd.to_timedelta([*range(len(X) - 1), None], "h"))),
            "y holds dates or durations: give numbers",
        ),
        (
            VadamRegressor(tune=False),
            lambda X, y: (X, pd.Series(pd.date_range("2020", periods=len(X), tz="UTC"))),
            "y holds dates or durations: give numbers",
        ),
        (VadamRegressor(target_transform="log"), lambda X, y: (X, y - 100), "needs positive targets, but y holds -"),
        (
            VadamRegressor(tune=False),
            lambda X, y: (X, np.where(y > 50, 1e300, y)),
            "y holds 1e[+]300, .* use other units",
        ),
        (VadamRegressor(tune=False), lambda X, y: (X, np.where(y > 50, np.inf, y)), "Input y contains infinity"),
        (VadamClassifier(tune=False), lambda X, y: (X, np.full(len(X), "a")), "one class only, .*'a'"),
        (
            VadamClassifier(tune=False),
            lambda X, y: (X, np.array(["a", None] * (len(X) // 2), dtype=object)),
            "y has no class in row 1, but None",
        ),
        (
            VadamClassifier(tune=False),
            lambda X, y: (X, pd.Series(["a", pd.NA] * (len(X) // 2), dtype="string")),
            "y has no class in row 1, but <NA>",
        ),
        (
            VadamClassifier(tune=False),
            lambda X, y: (X, np.where(y > 50, np.datetime64("2020-01-01"), np.datetime64("2021-01-01"))),
            "classes of the type datetime64.D.: give texts",
        ),
        (VadamClassifier(tune=False), lambda X, y: (X, y), "Unknown label type: continuous"),
        (VadamRegressor(folds=6), lambda X, y: (X[:5], y[:5]), "folds=6 is not valid for n_samples=5"),
        (VadamRegressor(folds=1), lambda X, y: (X, y), "folds=1 is not valid"),
        (
            VadamClassifier(logit_temperature=0.0),
            lambda X, y: (X, np.arange(len(X)) % 2),
            "logit_temperature=0.0 is not valid: give a pos",
        ),
        (VadamRegressor(members=0, tune=False), lambda X, y: (X, y), "members=0 is not valid"),
        (VadamRegressor(prior_precision=0), lambda X, y: (X, y), "prior_precision=0 is not valid: give a positive"),
        (VadamRegressor(hidden=50), lambda X, y: (X, y), r"hidden=50 is not valid: .* e.g. \(50,\)"),
        (VadamRegressor(hidden=(5.0,)), lambda X, y: (X, y), r"hidden=\(5.0,\) is not valid: give the sizes"),
        (VadamRegressor(hidden=(5, 0)), lambda X, y: (X, y), r"hidden=\(5, 0\) is not valid: give the sizes"),
        (VadamRegressor(budget=0), lambda X, y: (X, y), "budget=0 is not valid: give a whole number from 1"),
        (VadamRegressor(folds=2.0), lambda X, y: (X, y), "folds=2.0 is not valid"),
        (
            VadamRegressor(noise_scale=0),
            lambda X, y: (X, y),
            "noise_scale=0 is not valid",
        ),
        (VadamRegressor(optimizer="sgd"), lambda X, y: (X, y), "optimizer='sgd' is not valid: choose one of 'vadam'"),
        (VadamRegressor(optimizer=None), lambda X, y: (X, y), "optimizer=None is not valid: choose one of 'vadam'"),
        (VadamRegressor(activation="gelu"), lambda X, y: (X, y), "activation='gelu' is not valid"),
        (VadamRegressor(tune=False, noise_precision=-1.0), lambda X, y: (X, y), "noise_precision=-1.0"),
        (VadamRegressor(tune=False, epochs=5, lr=1e30), lambda X, y: (X, y), "the training diverged .* smaller lr"),
    ],
)
def test_bad_input(estimator, data, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(*data(*line()))


def test_log_likelihood_of_bad_targets():
    X, y = line(30)
    regressor, classifier = VadamRegressor(epochs=1, **QUICK), VadamClassifier(epochs=1, **QUICK)
    labels = np.arange(30) % 2
    for model, targets in ((regressor.fit(X, y), y), (classifier.fit(X, labels), labels)):
        for few in (targets[:29], targets[:1]):
            with pytest.raises(ValueError, match=f"y has {len(few)} entries, but X has 30 rows"):
                model.log_likelihood(X, few)
        assert model.log_likelihood(X, targets[:, None]) == model.log_likelihood(X, targets)
    with pytest.raises(ValueError, match=r"y has the label 5, .* \(its classes are 0, 1\)"):
        classifier.log_likelihood(X, np.where(labels == 1, 5, labels))


def test_not_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        VadamRegressor().predict(line()[0])
    with pytest.raises(NotFittedError):
        VadamClassifier().save(tmp_path / "model.safetensors")
    with pytest.raises(NotFittedError):
        VadamClassifier().log_likelihood(line()[0], np.zeros(120))


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


def test_torchs_default_device_does_not_matter(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    setting = {"random_state": 0, "budget": 2, "folds": 2, "epochs": 5, "members": 2, "predict_samples": 8}

    def answers():
        model = VadamRegressor(**setting).fit(X, X[:, 0])
        model.save(tmp_path / "m")
        classifier = VadamClassifier(**setting).fit(X, X[:, 0] > 0)
        return [
            model.predict(X),
            model.predict(X, True)[1],
            model.predict_interval(X),
            model.predict_quantiles(X),
            model.log_likelihood(X, X[:, 0]),
            classifier.predict_proba(X),
            classifier.log_likelihood(X, X[:, 0] > 0),
            VadamRegressor.load(tmp_path / "m").predict(X),
            model.refit(X, X[:, 0]).predict(X),
            model.partial_fit(X, X[:, 0]).predict(X),
            classifier.partial_fit(X, X[:, 0] > 0).predict_proba(X),
        ]

    expected = answers()
    with torch.device("meta"):
        found = answers()
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("optimizer", ["vadam", "mc-dropout", "map"])
@pytest.mark.parametrize("kind", [VadamRegressor, VadamClassifier])
def test_the_prediction_of_a_row_does_not_depend_on_the_other_rows(kind, optimizer):
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = X[:, 0] if kind is VadamRegressor else X[:, 0] > 0
    model = kind(optimizer=optimizer, epochs=5, dropout=0.2, tune=False, random_state=0, members=2).fit(X, y)
    answer = model.predict if kind is VadamRegressor else model.predict_proba
    whole = answer(X)
    np.testing.assert_allclose(answer(X[::-1])[::-1], whole, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(answer(X[[7, 7, 290]]), whole[[7, 7, 290]], rtol=1e-9, atol=1e-12)
