"""Conformal intervals: MAPIE's on the same scores, 1,000 simulated repetitions for the coverage, and small cases by hand."""

import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from vadam.calibration import ConformalIntervals, CrossConformalIntervals
from vadam.likelihoods import Gaussian, InputNoiseGaussian
from vadam.prediction import Regression

LEVELS = (0.5, 0.8, 0.9, 0.95)


class Table:
    """y = x + noise that grows with |x|; the model knows the line and, badly, the noise."""

    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.x = rng.uniform(-2, 2, n)
        self.y = self.x + (0.2 + np.abs(self.x)) * rng.standard_t(4, n)

    def prediction(self, slope: float = 0.9) -> Regression:
        mean = torch.tensor(slope * self.x)
        log_std = torch.tensor(np.log(0.3 + 0.5 * np.abs(self.x)))
        return Regression(torch.stack([mean, log_std], -1)[None], InputNoiseGaussian())

    @property
    def targets(self) -> torch.Tensor:
        return torch.tensor(self.y)


@pytest.mark.parametrize("score", ["absolute", "scaled", "quantile"])
@pytest.mark.parametrize(("n", "level"), [(99, 0.9), (50, 0.8)])
def test_coverage_is_nominal_in_a_thousand_repetitions(score, n, level):
    """n held-out rows and 20 new ones, 1,000 times: the coverage has mean ⌈(n + 1) level⌉/(n + 1) exactly.

    The share of one repetition has variance below c (1 − c) (1/20 + 1/(n + 2)); four deviations of the mean are allowed.
    """
    shares = []
    for seed in range(1000):
        held_out, new = Table(n, 2 * seed), Table(20, 2 * seed + 1)
        conformal = ConformalIntervals.fit(held_out.prediction(), held_out.targets, score=score)
        low, high = (end.squeeze(-1).numpy() for end in conformal.interval(new.prediction(), level))
        shares.append(np.mean((low <= new.y) & (new.y <= high)))
    expected = np.ceil((n + 1) * level - 1e-9) / (n + 1)
    deviation = np.sqrt(expected * (1 - expected) * (1 / 20 + 1 / (n + 2)) / 1000)
    assert abs(np.mean(shares) - expected) < 4 * deviation
    assert expected >= level


def test_cross_conformal_coverage_in_a_thousand_repetitions():
    """Lines through 40 rows by least squares, five folds: at least 2 level − 1 is proved, about the level is seen."""
    level, inside = 0.9, []
    for seed in range(1000):
        rows, new = Table(40, 2 * seed), Table(10, 2 * seed + 1)
        held_out, elsewhere = [], []
        for k in range(5):
            out = np.arange(40) % 5 == k
            slope = float(rows.x[~out] @ rows.y[~out] / (rows.x[~out] @ rows.x[~out]))
            part = Table(0, 0)
            part.x, part.y = rows.x[out], rows.y[out]
            held_out.append((part.prediction(slope), part.targets))
            elsewhere.append(new.prediction(slope))
        low, high = CrossConformalIntervals.fit(held_out).interval(elsewhere, level)
        inside.append(np.mean((low.squeeze(-1).numpy() <= new.y) & (new.y <= high.squeeze(-1).numpy())))
    assert level - 0.01 < np.mean(inside) < level + 0.03


def test_intervals_adapt_to_the_predicted_spread():
    held_out, new = Table(500, 0), Table(200, 1)
    absolute, scaled = (
        ConformalIntervals.fit(held_out.prediction(), held_out.targets, score=score).interval(new.prediction())
        for score in ("absolute", "scaled")
    )
    width = absolute[1] - absolute[0]
    torch.testing.assert_close(width, width[:1].expand_as(width))
    ratio = (scaled[1] - scaled[0]) / new.prediction().std
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))


@pytest.mark.parametrize("score", ["absolute", "scaled"])
@pytest.mark.parametrize("n", [40, 99, 250])
def test_split_intervals_are_mapies(score, n):
    mapie = pytest.importorskip("mapie", reason="MAPIE is not installed: pip install mapie")
    from mapie.conformity_scores import AbsoluteConformityScore, ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor
    from sklearn.base import BaseEstimator, RegressorMixin

    class Known(RegressorMixin, BaseEstimator):
        """Give a number of the prediction at x."""

        def __init__(self, which="mean"):
            self.which = which

        def fit(self, X, y):
            self.fitted_ = True
            return self

        def predict(self, X):
            table = Table(0, 0)
            table.x = np.asarray(X)[:, 0]
            return getattr(table.prediction(), self.which).squeeze(-1).numpy()

    assert mapie
    held_out, new = Table(n, 0), Table(30, 1)
    mean, std = (Known(which).fit(None, None) for which in ("mean", "std"))
    theirs = AbsoluteConformityScore() if score == "absolute" else ResidualNormalisedScore(std, prefit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SplitConformalRegressor(mean, confidence_level=list(LEVELS), conformity_score=theirs, prefit=True)
        model.conformalize(held_out.x[:, None], held_out.y)
        _, expected = model.predict_interval(new.x[:, None])
    ours = ConformalIntervals.fit(held_out.prediction(), held_out.targets, score=score)
    for k, level in enumerate(LEVELS):
        low, high = ours.interval(new.prediction(), level)
        np.testing.assert_allclose(low.squeeze(-1), expected[:, 0, k], rtol=1e-9)
        np.testing.assert_allclose(high.squeeze(-1), expected[:, 1, k], rtol=1e-9)


@pytest.mark.parametrize("n", [40, 99])
def test_cross_intervals_are_mapies(n):
    pytest.importorskip("mapie", reason="MAPIE is not installed: pip install mapie")
    from mapie.regression import CrossConformalRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold

    rows, new = Table(n, 0), Table(30, 1)
    X, X_new = rows.x[:, None], new.x[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CrossConformalRegressor(LinearRegression(), confidence_level=list(LEVELS), cv=KFold(5), method="plus")
        model.fit_conformalize(X, rows.y)
        _, expected = model.predict_interval(X_new)
    held_out, elsewhere = [], []
    for train, out in KFold(5).split(X):
        line = LinearRegression().fit(X[train], rows.y[train])
        held_out.append((gaussian(line.predict(X[out])), torch.tensor(rows.y[out])))
        elsewhere.append(gaussian(line.predict(X_new)))
    ours = CrossConformalIntervals.fit(held_out, score="absolute")
    for k, level in enumerate(LEVELS):
        low, high = ours.interval(elsewhere, level)
        np.testing.assert_allclose(low, expected[:, 0, k], rtol=1e-9)
        np.testing.assert_allclose(high, expected[:, 1, k], rtol=1e-9)


def gaussian(mean) -> Regression:
    return Regression(torch.tensor(np.asarray(mean, dtype=float))[None], Gaussian(1.0))


def test_the_order_statistics_by_hand():
    held_out = gaussian(np.zeros(9)), torch.arange(1.0, 10.0)  # scores 1, 2, … 9
    conformal = ConformalIntervals.fit(*held_out, score="absolute")
    assert conformal.radius(0.5) == 5
    assert conformal.radius(0.9) == 9
    assert conformal.radius(0.91) == np.inf  # ten scores would be needed
    wide = ConformalIntervals.fit(*held_out, score="quantile")
    z = stats.norm.ppf(0.9)
    assert wide.radius(0.8).item() == pytest.approx(8 - z)


def test_cross_conformal_order_statistics_by_hand():
    """Two folds of two rows, scores 1 and 2, then 3 and 4; their models say 0 and 10 at the new row."""
    folds = [(gaussian([0, 0]), torch.tensor([1.0, -2.0])), (gaussian([0, 0]), torch.tensor([3.0, 4.0]))]
    conformal = CrossConformalIntervals.fit(folds, score="absolute")
    low, high = conformal.interval([gaussian([0]), gaussian([10])], level=0.6)
    # of −2, −1, 6, 7 the ⌊0.4 · 5⌋ = 2nd; of 1, 2, 13, 14 the ⌈0.6 · 5⌉ = 3rd
    assert (low.item(), high.item()) == (-1.0, 13.0)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda p, y: ConformalIntervals.fit(p, y, score="cqr"), "score='cqr' is not valid: choose one of 'absolute'"),
        (lambda p, y: ConformalIntervals.fit(p, y[:2]), "targets of shape [2] do not fit"),
        (lambda p, y: ConformalIntervals.fit(Regression(p.mean[None]), y), "standard deviation is 0, by which errors"),
        (lambda p, y: ConformalIntervals.fit(p, y * np.nan), "y holds a value that is not finite"),
        (
            lambda p, y: ConformalIntervals.fit(p, y).interval(p, 1.0),
            "level must be between 0 and 1, e.g. 0.9, got 1.0",
        ),
        (lambda p, y: CrossConformalIntervals.fit([(p, y)]), "at least 2 folds, got 1"),
        (lambda p, y: CrossConformalIntervals.fit([(p, y)] * 3).interval([p]), "predictions of all 3 folds, got 1"),
    ],
)
def test_wrong_use_is_explained(act, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        act(gaussian(np.zeros(9)), torch.arange(9.0))
    assert message in str(error.value)
