"""New rows in ``partial_fit``: how much they count beside the rows before."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from vadam.ensemble import Method
from vadam.estimators import VadamClassifier, VadamRegressor
from vadam.estimators.more_rows import curvature

QUICK = {"tune": False, "random_state": 0, "members": 2, "predict_samples": 30}


@pytest.mark.parametrize("optimizer", ["vadam", "vprop", "vogn", "ivon", Method("vadam", lr=0.02, data_weight=3.0)])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
@pytest.mark.parametrize("rows", [60, 200])
def test_new_rows_of_a_linear_model_count_as_in_a_fit_of_all(optimizer, temperature, rows):
    """The least squares of all rows are the average of those of the parts, weighted by their sums of squares."""
    random = np.random.default_rng(rows)
    X = random.normal(size=(200 + rows, 1))
    first = np.arange(len(X)) < 200
    y = np.where(first, 1.0, 0.3) * X[:, 0] + 0.5 * random.normal(size=len(X))
    exact = LinearRegression(fit_intercept=False)
    own = (y[first] - X[first, 0]).std()
    setting = {"noise": "constant", "noise_precision": y[first].var() / own**2, "temperature": temperature}
    model = VadamRegressor(hidden=(), optimizer=optimizer, **setting, **QUICK).fit(X[first], y[first])

    def slope():
        return float(np.diff(model.predict([[0.0], [1.0]]))[0])

    before = slope()
    model.partial_fit(X[~first], y[~first])
    old, new, both = (exact.fit(X[part], y[part]).coef_[0] for part in (first, ~first, slice(None)))
    share = (slope() - before) / (new - old)
    np.testing.assert_allclose(share, (both - old) / (new - old), rtol=0.2)


def test_parts_in_turn_are_worth_what_they_are_at_once():
    random = np.random.default_rng(1)
    X = random.normal(size=(400, 1))
    y = np.repeat([1.0, 0.5], 200) * X[:, 0] + 0.5 * random.normal(size=400)
    setting = {"noise": "constant", "noise_precision": 4.0, "hidden": (), **QUICK}
    once = VadamRegressor(**setting).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    turns = VadamRegressor(**setting).fit(X[:200], y[:200])
    for k in range(200, 400, 50):
        turns.partial_fit(X[k : k + 50], y[k : k + 50])
    difference = abs(float(turns.predict([[1.0]])[0] - once.predict([[1.0]])[0]))
    assert difference < 0.05, difference  # of 0.5
    precision = [float(model.stack_.precision["0.weight"].mean()) for model in (once, turns)]
    np.testing.assert_allclose(*precision, rtol=0.15)


def test_weights_of_new_rows_are_compared_with_those_before():
    random = np.random.default_rng(2)
    X = random.normal(size=(400, 1))
    y = np.repeat([1.0, 0.5], 200) * X[:, 0] + 0.5 * random.normal(size=400)

    def share(before, then):
        model = VadamRegressor(hidden=(), noise="constant", noise_precision=4.0, **QUICK)
        model.fit(X[:200], y[:200], sample_weight=None if before is None else np.full(200, before))
        old = float(np.diff(model.predict([[0.0], [1.0]]))[0])
        model.partial_fit(X[200:], y[200:], sample_weight=np.full(200, then))
        return (float(np.diff(model.predict([[0.0], [1.0]]))[0]) - old) / -0.5

    even = share(None, 1.0)
    assert share(7.0, 7.0) == pytest.approx(even, rel=1e-3)
    assert share(None, 3.0) / even == pytest.approx(0.75 / 0.5, rel=0.1)
    assert share(4.0, 1.0) / even == pytest.approx(0.2 / 0.5, rel=0.15)


def test_curvature_of_rows_is_the_fisher_information():
    """J² τ for numbers, and J' diag(p) − p p' J for classes, from a loop over rows."""
    random = np.random.default_rng(3)
    X = random.normal(size=(80, 3))
    for model, targets in (
        (VadamRegressor(noise="constant", noise_precision=7.0, epochs=10, hidden=(5,), **QUICK), X[:, 0] ** 2),
        (VadamRegressor(noise="input", epochs=10, hidden=(5,), **QUICK), X[:, 0] ** 2),
        (VadamClassifier(epochs=10, hidden=(5,), **QUICK), X[:, 0] > 0),
        (VadamClassifier(epochs=10, hidden=(5,), **QUICK), np.digitize(X[:, 0], [-0.5, 0.5])),
    ):
        stack = model.fit(X, targets).stack_
        x = torch.from_numpy(X).float()
        weight = random.uniform(0.5, 2, 80)
        exact = 0.0
        for e in range(len(stack)):
            theta = {name: value[e] for name, value in stack.mean.items()}
            for row, share in zip(x, weight / weight.sum(), strict=True):

                def f(theta, row=row, network=stack.network):
                    return torch.func.functional_call(network, theta, (row,))

                out, jacobian = f(theta), torch.func.jacrev(f)(theta)
                tau = stack.noise_precision[e]
                if stack.likelihood == "gaussian":
                    information = tau.expand(1).diag()
                elif stack.likelihood == "input-noise":
                    information = torch.stack([tau * (-2 * out[1]).exp(), torch.tensor(2.0)]).diag()
                elif stack.likelihood == "bernoulli":
                    information = (out.sigmoid() * (1 - out.sigmoid())).diag()
                else:
                    p = out.softmax(-1)
                    information = p.diag() - torch.outer(p, p)
                for J in jacobian.values():
                    J = J.flatten(1)
                    exact += share * float((J * (information @ J)).sum())
        assert curvature(stack, x, weight) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("rows", [5, 100])
@pytest.mark.parametrize("targets", [1, 2])
def test_a_new_target_with_zeros_too_many_is_left_out(rows, targets, tmp_path):
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (300, 1))
    y = np.sin(2 * X) + 0.05 * random.normal(size=(300, targets))
    model = VadamRegressor(epochs=10, **QUICK).fit(X[:200], y[:200])
    model.save(tmp_path / "m")
    loaded = VadamRegressor.load(tmp_path / "m")
    new, wrong = slice(200, 200 + rows), y[200 : 200 + rows].copy()
    wrong[2, -1] = 1e5
    stack = model.stack_
    with pytest.raises(
        ValueError, match=r"row 0 has a target that is more than 20 quartile distances away .* no other row"
    ):
        model.partial_fit(X[202:203], wrong[2:3])
    assert model.stack_ is stack
    weight = random.uniform(1, 2, rows)
    with pytest.warns(UserWarning, match="row 2 has a target that is more than 20 quartile distances away"):
        found = model.partial_fit(X[new], wrong, sample_weight=weight).predict(X)
    right = np.arange(rows) != 2
    expected = loaded.partial_fit(X[new][right], wrong[right], sample_weight=weight[right]).predict(X)
    np.testing.assert_array_equal(found, expected)


def test_many_new_targets_that_are_far_away_are_learned():
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (100, 1))
    model = VadamRegressor(epochs=10, **QUICK).fit(X, X[:, 0])
    before = model.predict(X).mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, X[:, 0] + 100)
    assert model.predict(X).mean() > before + 1


def test_a_number_that_stands_for_a_gap_in_new_targets_is_named():
    X = np.linspace(-1, 1, 60)[:, None]
    model = VadamRegressor(epochs=2, **QUICK).fit(X, X[:, 0])
    with pytest.warns(UserWarning, match=r"column y: -999 in 5 rows is far from all others") as said:
        model.partial_fit(X, np.where(np.arange(60) < 5, -999, X[:, 0]))
    assert {warning.filename for warning in said} == {__file__}
