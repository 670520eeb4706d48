"""Estimators on tables as they are: DataFrames, gaps, unseen values, several targets, weights, transforms, noise by input."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.datasets import load_iris

from vadam import plot
from vadam.ensemble import Member
from vadam.estimators import VadamClassifier, VadamRegressor
from vadam.estimators.noise import PredictiveNoise
from vadam.estimators.regressor import _resampled
from vadam.estimators.search import without_outliers
from vadam.estimators.targets import Transform, TransformedRegression
from vadam.prediction import Regression

QUICK = {"tune": False, "random_state": 0, "members": 2, "predict_samples": 30}


def houses(n=300, seed=0):
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "area": random.uniform(20, 200, n),
            "city": random.choice(["Lagos", "Paris"], n),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 700, n), "D"),
        }
    )
    price = 3 * table["area"] + 300 * (table["city"] == "Paris") + random.normal(0, 20, n)
    table.loc[::11, "area"] = np.nan
    return table, price.to_numpy()


def test_frames_of_mixed_columns_need_no_preparation(tmp_path):
    X, y = houses()
    model = VadamRegressor(epochs=60, **QUICK).fit(X, y)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["area", "city", "sold"]
    X_new, y_new = houses(seed=1)
    complete = X_new["area"].notna()
    assert model.score(X_new[complete], y_new[complete]) > 0.9
    model.save(tmp_path / "m")
    loaded = VadamRegressor.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_interval(X_new), model.predict_interval(X_new))
    assert loaded.encoder_ == model.encoder_


@pytest.mark.parametrize(("name", "way"), [("t", "place it behind another column"), ("price index", "rename it")])
def test_numbers_that_look_like_an_id_are_left_out_with_a_warning(name: str, way: str):
    """A time that counts the rows was left out without a word."""
    X = pd.DataFrame({name: np.arange(60), "x": np.random.default_rng(0).normal(size=60)})
    with pytest.warns(UserWarning, match=f"column '{name}' is left out: it looks like an id.*; {way} to keep it"):
        VadamRegressor(epochs=1, **QUICK).fit(X, X["x"])
    kept = VadamRegressor(epochs=1, **QUICK).fit(X[["x", name]].rename(columns={name: "t"}), X["x"])
    assert not kept.encoder_.left_out


def test_notes_on_columns_and_targets_are_warnings():
    """From Python a table was read by guesses, such as the month first, of which only the shell said something."""
    X = pd.DataFrame({"sold": ["03/04/2020", "05/06/2020"] * 30, "x": np.arange(60.0)})
    y = np.where(X.index % 9 == 0, -999.0, X["x"])
    with pytest.warns(UserWarning, match="column") as said:
        VadamRegressor(epochs=1, **QUICK).fit(X, y)
    assert [str(warning.message) for warning in said] == [
        "column sold: dates such as '03/04/2020' are read with the month first",
        "column y: -999 in 7 rows is far from all others (1 to 59); make these cells gaps if it stands for one",
    ]
    assert {warning.filename for warning in said} == {__file__}


@pytest.mark.parametrize("kind", ["float64", "float32", "Float64"])
def test_infinite_numbers_of_a_frame_are_refused_as_those_of_an_array(kind: str):
    """Infinite numbers of a frame counted as gaps, without a word."""
    X, y = houses(60)
    X["area"] = X["area"].astype(kind)
    model = VadamRegressor(epochs=1, **QUICK).fit(X, y)
    X.loc[7, "area"] = -np.inf
    for call in (lambda: VadamRegressor(epochs=1, **QUICK).fit(X, y), lambda: model.predict(X)):
        with pytest.raises(ValueError, match="column 'area' is infinite in row 7: give a number, or NaN"):
            call()


def test_tables_with_too_few_rows_are_refused():
    X, y = houses()
    with pytest.raises(ValueError, match="X has 1 rows: give at least 2"):
        VadamRegressor(**QUICK).fit(X[:1], y[:1])
    model = VadamRegressor(epochs=1, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="X has 0 rows: give at least 1"):
        model.predict(X[:0])


def test_tables_of_arrow_are_those_of_pandas():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table, price = houses(60)
    theirs = arrow.Table.from_pandas(table)
    model = VadamRegressor(**QUICK, epochs=3).fit(theirs, price)
    np.testing.assert_array_equal(model.predict(theirs), model.predict(table))


def test_a_category_that_was_never_seen_makes_predictions_less_sure():
    X, y = houses()
    model = VadamRegressor(epochs=60, **QUICK).fit(X, y)
    new = pd.DataFrame({"area": [100.0] * 2, "city": ["Paris", "Oslo"], "sold": [pd.Timestamp("2020-06-01")] * 2})
    mean, std = model.predict(new, return_std=True)
    assert std[1] > 2 * std[0]
    assert 300 < mean[1] < 600  # between the cities that it knows
    classifier = VadamClassifier(epochs=60, **QUICK).fit(X, np.where(X["city"] == "Paris", "yes", "no"))
    sure, unsure = classifier.predict_distribution(new).mutual_information
    assert unsure > 5 * sure


def test_rows_with_unseen_values_are_predicted_as_if_they_were_alone():
    random = np.random.default_rng(0)
    n = 100
    X = pd.DataFrame({"a": random.normal(size=n), "b": 10 * random.normal(size=n), "c": random.choice([*"pqrs"], n)})
    model = VadamRegressor(members=2, epochs=5, tune=False, random_state=0).fit(X, 3 * X["a"] + X["b"])
    alone = pd.DataFrame({"a": [0.5], "b": [np.nan], "c": ["new"]})
    many = pd.concat([alone, X, alone, alone], ignore_index=True)
    predicted = model.predict_quantiles(many, (0.1, 0.9))[[0, -2, -1]]
    np.testing.assert_allclose(predicted, model.predict_quantiles(alone, (0.1, 0.9)).repeat(3, axis=0))
    assert np.ptp(predicted[0]) > 10  # as wide as the values of training differ


def test_noise_by_input_is_found_and_chosen():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (400, 1))
    y = X[:, 0] + np.exp(1.5 * X[:, 0]) * random.normal(size=400)
    model = VadamRegressor(budget=8, folds=3, members=2, random_state=0).fit(X, y)
    assert model.noise_ == "input"
    _, std = model.predict([[-0.9], [0.9]], return_std=True)
    assert 6 < std[1] / std[0] < 35  # truth: 15
    prediction = model.predict_distribution([[0.0]])
    assert prediction.std.item() ** 2 == pytest.approx(
        prediction.epistemic.item() ** 2 + prediction.aleatoric.item() ** 2
    )


def test_intervals_hold_their_share_of_new_rows():
    """Heavy tails that a Gaussian would not fit: 2,000 new rows, so a share's deviation is 0.007, and 300 rows calibrate, 0.017."""
    random = np.random.default_rng(0)
    X, X_new = random.normal(size=(300, 2)), random.normal(size=(2000, 2))
    y, y_new = (rows[:, 0] + 0.3 * random.standard_t(2.5, len(rows)) for rows in (X, X_new))
    model = VadamRegressor(budget=4, folds=3, members=2, random_state=0, target_transform="none").fit(X, y)
    for level in (0.5, 0.8, 0.9):
        low, high = model.predict_interval(X_new, level).T
        assert np.mean((low <= y_new) & (y_new <= high)) == pytest.approx(level, abs=0.06)
    assert model.predictive_noise_.dof < 10
    with pytest.raises(ValueError, match=r"level must be between 0 and 1"):
        model.predict_interval(X_new, 1.0)


def test_several_targets(tmp_path):
    X, y = houses()
    both = np.stack([y, -2 * y + 5], axis=1)
    for noise in ("constant", "input"):
        model = VadamRegressor(epochs=60, noise=noise, **QUICK).fit(X, both)
        mean, std = model.predict(X[:7], return_std=True)
        assert mean.shape == std.shape == (7, 2)
        assert model.predict_quantiles(X[:7], (0.1, 0.5, 0.9)).shape == (7, 2, 3)
        ends = model.predict_interval(X[:7])
        assert ends.shape == (7, 2, 2)
        assert (ends[..., 0] < ends[..., 1]).all()
        np.testing.assert_allclose(mean[:, 1], -2 * mean[:, 0] + 5, atol=0.35 * both[:, 1].std())
        model.save(tmp_path / "m")
        np.testing.assert_array_equal(VadamRegressor.load(tmp_path / "m").predict(X), model.predict(X))


def test_rows_of_no_weight_change_nothing_much():
    X, y = houses()
    X = X[["area"]].fillna(100.0)
    wrong = np.where(np.arange(300) % 2 == 0, y, 5000.0)
    weight = (np.arange(300) % 2 == 0).astype(float)
    model = VadamRegressor(epochs=60, **QUICK).fit(X, wrong, sample_weight=weight)
    assert np.abs(model.predict(X) - y).mean() < 400
    plain = VadamRegressor(epochs=60, **QUICK).fit(X, wrong)
    assert np.abs(plain.predict(X) - y).mean() > 1000


@pytest.mark.parametrize("tune", [False, True])
@pytest.mark.parametrize("kind", ["regressor", "classifier", "three classes"])
def test_a_row_of_weight_zero_is_as_if_it_were_not_there(kind, tune):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    weight = (np.arange(60) >= 30).astype(float)
    spoilt = np.where(weight[:, None] > 0, X, 1e6)
    setting = {**QUICK, "epochs": 5, "tune": tune, "budget": 2, "folds": 2}
    if kind == "regressor":
        model, y = VadamRegressor(**setting), np.where(weight > 0, X[:, 0], 1e6)
    else:
        y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0 if kind == "three classes" else 0)
        model = VadamClassifier(**setting)
    answer = model.predict if kind == "regressor" else model.predict_proba
    model.fit(spoilt, y, sample_weight=weight)
    found = answer(X)
    model.fit(X[30:], y[30:], sample_weight=np.ones(30))
    np.testing.assert_array_equal(found, answer(X))
    model.partial_fit(spoilt[25:], y[25:], sample_weight=weight[25:])
    found = answer(X)
    model.fit(X[30:], y[30:], sample_weight=np.ones(30)).partial_fit(X[30:], y[30:], sample_weight=np.ones(30))
    np.testing.assert_array_equal(found, answer(X))


def test_a_target_without_a_logarithm_may_have_the_weight_zero():
    """``partial_fit`` refused a row of weight 0 whose target is not positive."""
    X, y = np.linspace(1, 2, 40)[:, None], np.linspace(1, 9, 40)
    model = VadamRegressor(target_transform="log", epochs=5, **QUICK).fit(X, y)
    without = VadamRegressor(target_transform="log", epochs=5, **QUICK).fit(X, y)
    y[3] = -1
    weight = (y > 0).astype(float)
    model.partial_fit(X, y, sample_weight=weight)
    without.partial_fit(X[weight > 0], y[weight > 0], sample_weight=np.ones(39))
    np.testing.assert_array_equal(model.predict(X), without.predict(X))
    with pytest.raises(ValueError, match="took the logarithm of its targets, but y holds -1"):
        model.partial_fit(X, y)


def test_a_class_of_weight_zero_keeps_its_column():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), np.arange(60) % 3
    probs = VadamClassifier(epochs=5, **QUICK).fit(X, y, sample_weight=(y < 2).astype(float)).predict_proba(X)
    assert probs.shape == (60, 3)
    assert (probs[:, 2] < probs[:, :2].max(1)).mean() > 0.9


def test_one_absurd_target_leaves_the_others_predictable():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 1))
    y = X[:, 0] + 0.1 * random.normal(size=150)
    y[3] = 1e6
    model = VadamRegressor(random_state=0, budget=4, epochs=60, members=1).fit(X, y)
    assert np.abs(model.predict(X[4:]) - X[4:, 0]).mean() < 0.5
    np.testing.assert_array_equal(without_outliers(y)[4:], y[4:])
    lognormal = np.exp(2 * random.normal(size=1000))
    np.testing.assert_array_equal(without_outliers(lognormal), lognormal)  # many are far out: it is their shape


def test_gaps_in_arrays():
    X, y = load_iris(return_X_y=True)
    X[::7, 2] = np.nan
    model = VadamClassifier(epochs=40, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.9
    later = X.copy()
    later[0, 0] = np.nan  # where there never was a gap
    assert np.isfinite(model.predict_proba(later)).all()


@pytest.mark.parametrize("kind", ["datetime64[D]", "timedelta64[s]"])
def test_arrays_of_dates_and_durations_are_refused(kind):
    """The model read them in the unit in which numpy kept them, and gaps as -9e18."""
    X, model = np.arange(40).reshape(20, 2), VadamRegressor(epochs=1, **QUICK)
    for table in (X.astype(kind), list(X.astype(kind))):
        with pytest.raises(ValueError, match="array of dates or durations"):
            model.fit(table, np.arange(20.0))
        with pytest.raises(ValueError, match="array of dates or durations"):
            clone(model).fit(X, np.arange(20.0)).predict(table)


@pytest.mark.parametrize("targets", [1, 2])
def test_one_level_of_quantiles_is_a_column(targets):
    """A level alone gave rows in the place of columns."""
    X = np.arange(20.0)[:, None]
    model = VadamRegressor(epochs=1, **QUICK).fit(X, np.repeat(X, targets, axis=1))
    np.testing.assert_array_equal(model.predict_quantiles(X, 0.9), model.predict_quantiles(X, [0.9]))
    with pytest.raises(ValueError, match="at least one probability"):
        model.predict_quantiles(X, [])


def test_progress_is_told():
    told = []
    X, y = houses(100)
    VadamRegressor(
        budget=4, folds=2, epochs=5, members=1, random_state=0, verbose=lambda share, label: told.append((share, label))
    ).fit(X, y)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] > 0.9
    assert any("settings" in label for _, label in told)


@pytest.mark.parametrize("kind", ["log", "quantile"])
def test_transforms_are_functions_with_their_inverse_and_slope(kind):
    y = np.exp(np.random.default_rng(0).normal(size=500))
    transform = Transform.fit(kind, y)
    where = torch.tensor(np.linspace(0.2, 5, 40))
    torch.testing.assert_close(transform.inverse(transform.of(where)), where)
    nudged = (transform.of(where + 1e-6) - transform.of(where - 1e-6)) / 2e-6
    np.testing.assert_allclose(transform.log_slope(where).exp(), nudged, rtol=0.05)
    again = Transform.from_dict(transform.as_dict())
    assert again == transform


@pytest.mark.parametrize("dof", [np.inf, 5.0])
@pytest.mark.parametrize("kind", ["log", "quantile"])
def test_a_transformed_prediction_is_a_distribution_of_the_target(kind, dof):
    y = np.exp(0.5 * np.random.default_rng(0).normal(size=500))
    transform = Transform.fit(kind, y)
    base = PredictiveNoise(1.0, dof).prediction(torch.tensor([[[0.1, -1.0]], [[0.3, -1.2]]], dtype=torch.float64))
    pred = TransformedRegression(base.samples, base.likelihood, transform)
    for level in (0.1, 0.5, 0.9):
        assert pred.cdf(pred.quantile(level)).item() == pytest.approx(level, abs=1e-6)

    def density(value):
        return pred.log_prob(torch.tensor([[value]], dtype=torch.float64)).exp().item()

    low, high = pred.quantile(0.1).item(), pred.quantile(0.9).item()
    total, _ = integrate.quad(
        density, low, high, limit=300, points=[x for x in transform.y if low < x < high][:40] or None
    )
    assert total == pytest.approx(0.8, abs=0.01)
    if np.isinf(dof) and kind == "log":
        parts = [stats.lognorm(s=np.exp(s), scale=np.exp(m)) for m, s in base.samples[:, 0].tolist()]
        assert pred.mean.item() == pytest.approx(np.mean([part.mean() for part in parts]), rel=0.01)
        variance = np.mean([part.var() for part in parts]) + np.var([part.mean() for part in parts])
        assert pred.variance.item() == pytest.approx(variance, rel=0.1)
    draws = torch.cat([pred.draw(torch.Generator().manual_seed(k)) for k in range(2000)])
    assert draws.median().item() == pytest.approx(pred.quantile(0.5).item(), rel=0.1)


@pytest.mark.parametrize("dof", [np.inf, 3.0])
@pytest.mark.parametrize("kind", ["log", "quantile"])
def test_moments_of_a_transformed_prediction_hold_in_the_tails(kind, dof):
    """A mean over 31 quantiles had left out the tails, and most of the variance with them."""
    transform = Transform.fit(kind, np.exp(np.random.default_rng(0).normal(size=2000)))
    base = PredictiveNoise(1.0, dof).prediction(torch.tensor([[[0.0, 0.0]]]).double())
    pred = TransformedRegression(base.samples, base.likelihood, transform)
    noise = stats.norm if np.isinf(dof) else stats.t(dof)
    y = transform.inverse(torch.from_numpy(noise.ppf((np.arange(100_000) + 0.5) / 100_000)))
    assert pred.mean.item() == pytest.approx(y.mean().item(), rel=0.02)
    assert pred.std.item() == pytest.approx(y.std().item(), rel=0.05)
    if kind == "log" and np.isinf(dof):
        whole = TransformedRegression(base.samples, base.likelihood, Transform(low=0.0))
        assert whole.mean.item() == pytest.approx(np.exp(0.5), rel=1e-9)
        assert whole.variance.item() == pytest.approx((np.e - 1) * np.e, rel=1e-9)


@pytest.mark.parametrize("kind", ["log", "quantile"])
def test_a_transformed_prediction_takes_whole_numbers_and_keeps_gaps(kind):
    """The knots had been rounded to the type of the targets: whole numbers had densities of 0."""
    y = np.exp(5 + np.random.default_rng(0).normal(size=500)).round()
    base = PredictiveNoise(1.0, 5.0).prediction(
        torch.tensor([[[0.1, -1.0]], [[0.3, -1.2]]]).double().expand(-1, 500, -1)
    )
    pred = TransformedRegression(base.samples, base.likelihood, Transform.fit(kind, y))
    for whole in (torch.tensor(y).long(), pd.Series(y.astype(np.int32)), y.astype(np.int64)):
        torch.testing.assert_close(pred.cdf(whole), pred.cdf(torch.tensor(y)))
        torch.testing.assert_close(pred.log_prob(whole), pred.log_prob(torch.tensor(y)))
    y[0] = np.nan
    for value in (pred.cdf(y).flatten(), pred.log_prob(y)):
        assert value.isnan().tolist() == [True] + 499 * [False]


@pytest.mark.parametrize("kind", ["log", "quantile"])
def test_the_band_of_a_transformed_prediction_is_in_the_unit_of_the_target(kind):
    """The part without noise had been drawn where the transformed target would be: at log y, for prices near 150."""
    y = np.exp(5 + np.random.default_rng(0).normal(size=500))
    transform = Transform.fit(kind, y)
    z = float(transform.forward(np.array([150.0]))[0])
    base = PredictiveNoise(1.0, np.inf).prediction(torch.tensor([[[z, -2.0]], [[z, -2.0]]]).double().expand(-1, 9, -1))
    pred = TransformedRegression(base.samples, base.likelihood, transform)
    _, epistemic = plot.band(pred, torch.arange(9.0), ax=Figure().subplots()).collections
    np.testing.assert_allclose(epistemic.get_paths()[0].vertices[:, 1], 150, rtol=0.05)


def test_a_skewed_target_may_be_transformed(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    y = np.exp(2 * X[:, 0] + 0.3 * random.normal(size=300))
    assert Transform.candidates(y) == ["log", "quantile"]
    assert Transform.candidates(random.normal(size=300)) == []
    assert Transform.candidates(np.append(np.zeros(5000), np.exp(random.normal(size=24)))) == []  # nearly all equal
    model = VadamRegressor(target_transform="log", epochs=60, **QUICK).fit(X, y)
    assert (model.predict_interval(X)[:, 0] > 0).all()
    plain = VadamRegressor(target_transform="none", epochs=60, **QUICK).fit(X, y)
    assert model.log_likelihood(X, y) > plain.log_likelihood(X, y) + 0.5
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(VadamRegressor.load(tmp_path / "m").predict(X), model.predict(X))
    assert model.refit(X, y).transform_.kind == "log"
    assert isinstance(model.predict_distribution(X), Regression)


def test_a_posterior_is_the_next_prior(monkeypatch):
    """Five new rows change little of what 200 have taught; without the posterior as prior they would be learned by heart."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (400, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * random.normal(size=400)
    setting = {"noise": "constant", "noise_precision": 40.0, "epochs": 150, "temperature": 0.3}

    def error(model):
        return np.sqrt(np.mean((model.predict(X[205:]) - y[205:]) ** 2))

    def updated(first, then):
        model = VadamRegressor(**setting, **QUICK).partial_fit(X[first], y[first])
        before, precision = error(model), model.stack_.precision["0.weight"].mean()
        model.partial_fit(X[then], y[then])
        return before, error(model), precision, model.stack_.precision["0.weight"].mean()

    before, after, precision, higher = updated(slice(0, 200), slice(200, 205))
    assert after < 1.2 * before < 0.15
    assert higher > precision  # it has seen more
    few, more, *_ = updated(slice(0, 12), slice(0, 200))
    assert more < 0.75 * few
    monkeypatch.setattr("vadam.estimators.base.Member", lambda *a, earlier, **k: Member(*a, init=earlier.mean, **k))
    before, after, *_ = updated(slice(0, 200), slice(200, 205))
    assert after > 3 * before
    for optimizer in ("map", "vadagrad"):
        with pytest.raises(ValueError, match="has no posterior that could be the next prior"):
            VadamRegressor(optimizer=optimizer, epochs=2, **QUICK).fit(X, y).partial_fit(X, y)


def test_classes_in_parts():
    X, y = load_iris(return_X_y=True)
    model = VadamClassifier(epochs=30, **QUICK).partial_fit(X[::2], y[::2])
    model.partial_fit(X[1::2], y[1::2])
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="y has the label 7, which the first rows did not have"):
        model.partial_fit(X, np.full(150, 7))


@pytest.mark.parametrize("labels", [np.array([2, 10]), np.array([2.0, 10.0]), np.array(["2", "10"])])
def test_labels_of_new_rows_are_those_of_the_first(labels):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    number = (X[:, 0] > 0).astype(int)
    model = VadamClassifier(epochs=30, **QUICK).fit(X, labels[number])
    if labels.dtype.kind in "if":
        model.partial_fit(X, np.array([2, 10])[number]).partial_fit(X, np.array([2.0, 10.0])[number])
        assert model.score(X, labels[number]) > 0.9
    other = np.array(["2", "10"]) if labels.dtype.kind in "if" else np.array([2, 10])
    with pytest.raises(ValueError, match="which the first rows did not have"):
        model.partial_fit(X, other[number])


def test_a_loaded_model_goes_on_as_the_saved_one(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    model = VadamRegressor(epochs=5, **QUICK).fit(X, X[:, 0]).partial_fit(X, X[:, 0])
    model.save(tmp_path / "m")
    loaded = VadamRegressor.load(tmp_path / "m").partial_fit(X, X[:, 1])
    np.testing.assert_array_equal(loaded.predict(X), model.partial_fit(X, X[:, 1]).predict(X))


def test_targets_whose_logarithm_does_not_exist_cannot_follow():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = VadamRegressor(epochs=2, target_transform="log", **QUICK).partial_fit(X, np.exp(X[:, 0]))
    with pytest.raises(ValueError, match="the first call took the logarithm of its targets, but y holds -1"):
        model.partial_fit(X, -np.ones(len(X)))


@pytest.mark.parametrize("targets", [1, 2])
def test_long_tables_are_predicted_in_blocks(targets, monkeypatch):
    """Every sample of every row at once would not fit into memory: 50,000 rows of the defaults are 400 MB."""
    X, y = houses(60)
    y = np.stack([y, -y], axis=1) if targets == 2 else y
    model = VadamRegressor(epochs=5, **QUICK).fit(X, y)
    classifier = VadamClassifier(epochs=5, **QUICK).fit(X, X["city"])
    sizes = []
    for estimator in (VadamRegressor, VadamClassifier):
        predict = estimator.predict_distribution
        counted = lambda self, part, predict=predict: sizes.append(len(part)) or predict(self, part)  # noqa: E731
        monkeypatch.setattr(estimator, "predict_distribution", counted)

    def answers():
        yield from model.predict(X, return_std=True)
        yield model.predict(X)
        yield model.predict_quantiles(X)
        yield model.predict_interval(X)
        yield model.log_likelihood(X, y)
        yield classifier.predict_proba(X)

    whole = list(answers())
    assert set(sizes) == {60}
    sizes.clear()
    monkeypatch.setattr("vadam.estimators.base.ROWS_AT_ONCE", 25)
    for found, expected in zip(answers(), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert set(sizes) == {25, 10}


def test_the_noise_is_that_of_the_rows_that_count():
    """Half of the rows are noisy and hardly count: intervals had been as wide as if they did."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (200, 1))
    noisy = np.arange(200) % 2 == 0
    y = np.sin(X[:, 0]) + np.where(noisy, 5.0, 0.1) * random.normal(size=200)
    settings = {"members": 2, "budget": 2, "noise": "constant", "target_transform": "none", "random_state": 0}
    model = VadamRegressor(**settings).fit(X, y, sample_weight=np.where(noisy, 1e-4, 1.0))
    assert model.predict(X[:20], return_std=True)[1].mean() < 0.3
    assert np.diff(model.predict_interval(X[:20]))[:, 0].mean() < 0.8


def test_classes_without_an_error_among_the_held_out_rows_are_not_certain():
    """The likelihood of such rows grows without a bound as the temperature falls to 0."""
    random = np.random.default_rng(13)
    X, new = random.normal(size=(100, 3)), random.normal(size=(4000, 3))
    above = [points[:, 0] + 0.5 * points[:, 1] > 0 for points in (X, new)]
    model = VadamClassifier(budget=4, epochs=40, members=2, random_state=0).fit(X, above[0])
    fitted = model.log_likelihood(new, above[1])
    model.logit_temperature_ = 1.0
    assert fitted > 1.3 * model.log_likelihood(new, above[1])


def test_classes_are_as_sure_as_the_rows_that_count():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    y, wrong = X[:, 0] > 0, np.arange(300) % 2 == 0
    y = np.where(wrong, random.random(300) > 0.5, y)
    model = VadamClassifier(members=2, budget=2, random_state=0).fit(X, y, sample_weight=np.where(wrong, 1e-4, 1.0))
    assert model.log_likelihood(X[~wrong], y[~wrong]) > -0.15


@pytest.mark.parametrize("weight", [1e-200, 7.0, 1e200])
def test_equal_weights_of_any_size_change_nothing(weight):
    X = np.random.default_rng(0).normal(size=(40, 2))
    settings = {**QUICK, "epochs": 5, "tune": True, "budget": 2, "folds": 2}
    model, weighted = VadamRegressor(**settings), VadamRegressor(**settings)
    plain = model.fit(X, X[:, 0]).predict_interval(X)
    found = weighted.fit(X, X[:, 0], sample_weight=np.full(40, weight)).predict_interval(X)
    np.testing.assert_allclose(found, plain, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-15, 1e-9, 1e9])
def test_units_of_the_inputs_change_nothing(unit):
    """Outliers of a column of tiny numbers were not squeezed."""
    random = np.random.default_rng(0)
    X = random.standard_t(2, size=(60, 2))
    settings = {**QUICK, "epochs": 5}
    plain, other = (VadamRegressor(**settings).fit(X * s, X[:, 0]).predict(X * s) for s in (1.0, unit))
    np.testing.assert_allclose(other, plain, rtol=1e-6)


def test_weights_that_are_equal_resample_nothing():
    values = np.random.default_rng(0).random((50, 2))
    np.testing.assert_array_equal(_resampled(values, np.full(50, 0.3)), np.sort(values, axis=0))
    doubled = _resampled(values, np.where(np.arange(50) < 25, 1.0, 1e-9))
    np.testing.assert_array_equal(doubled, np.sort(values[:25], axis=0))


def test_a_higher_level_is_never_a_narrower_interval():
    """Beyond the level that the held-out rows can tell, the model's own quantiles had been narrower than theirs."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (60, 1))
    model = VadamRegressor(members=1, budget=2, noise="constant", random_state=0)
    model.fit(X, np.sin(X[:, 0]) + 0.1 * random.normal(size=60))
    model.held_out_pits_ = np.linspace(1e-4, 1 - 1e-4, 60)[:, None]
    widths = [np.diff(model.predict_interval(X[:5], level))[:, 0] for level in (0.5, 0.9, 0.96, 0.97, 0.99, 0.9999)]
    assert (np.diff(widths, axis=0) >= 0).all()


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2), (2, 3)])
def test_new_rows_have_as_many_targets_as_the_first(first, then):
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = VadamRegressor(epochs=2, **QUICK).fit(X, X[:, :first])
    with pytest.raises(ValueError, match=f"y has {then} targets a row, but those of the first call had {first}"):
        model.partial_fit(X, X[:, :then])


def test_weights_below_zero_are_refused_by_the_name_of_the_argument():
    X, y = houses(20)
    with pytest.raises(ValueError, match="sample_weight holds -2: give numbers from 0, one for each row"):
        VadamRegressor(**QUICK).fit(X, y, sample_weight=np.full(20, -2.0))


def test_what_cannot_be_read_in_a_prediction_is_a_warning():
    random = np.random.default_rng(0)
    X = pd.DataFrame(
        {"area": random.uniform(20, 200, 60), "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(60), "D")}
    )
    model = VadamRegressor(epochs=2, **QUICK).fit(X, X["area"])
    answers = (model.predict, model.predict_interval, lambda X: model.partial_fit(X, X["area"].index.to_numpy(float)))
    for answer in answers:
        with pytest.warns(UserWarning, match="column area: '20,5' cannot be read as numbers and count as missing"):
            answer(X.head(3).assign(area=["20,5", "30", "40"]))
        with pytest.warns(UserWarning, match="column sold: '43831' cannot be read as dates and count as missing"):
            answer(X.head(3).assign(sold=43831))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = model.predict(X.assign(area=X["area"].astype(str), sold=X["sold"].astype(str)))
    np.testing.assert_array_equal(read, model.predict(X))


@pytest.mark.parametrize("rows", [40, 3_000])
def test_the_order_of_day_and_month_is_that_of_the_new_column_where_training_had_none(rows):
    """Also of a long table, which is predicted in blocks: only its last row tells."""
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(600), "D")
    model = VadamRegressor(epochs=20, **QUICK).fit(pd.DataFrame({"day": days}), np.arange(600.0))
    early = days[(days.day <= 12) & (days.day != days.month)]
    new = pd.DataFrame({"day": [*np.resize(early, rows), pd.Timestamp("2020-03-13")]})
    texts = new.assign(day=new["day"].dt.strftime("%d/%m/%Y"))
    with pytest.warns(UserWarning, match="column day: dates such as '02/01/2020' are read with the day first"):
        read = model.predict(texts)
    np.testing.assert_allclose(read, model.predict(new))
    with pytest.warns(UserWarning, match="are read with the month first"):
        model.predict(texts.head(2))
    with pytest.warns(UserWarning, match="are read with the day first"):
        known = VadamRegressor(epochs=1, **QUICK).fit(texts, np.arange(rows + 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known.predict(texts.head(2))
