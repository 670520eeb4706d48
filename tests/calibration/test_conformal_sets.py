"""Conformal sets: MAPIE's on the same probabilities, simulated coverage, and small cases by hand."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import special

from vadam.calibration import ConformalSets, CrossConformalSets
from vadam.likelihoods import Bernoulli, Categorical
from vadam.prediction import Binary, Classes

LEVELS = (0.5, 0.8, 0.9)


def problem(n: int, seed: int, C: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities that are too sure, and labels from the right ones."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n, C))
    p = special.softmax(1.5 * f, axis=1)
    y = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
    return special.softmax(3 * f, axis=1), y


def classes(p: np.ndarray) -> Classes:
    return Classes(torch.tensor(np.log(p))[None], Categorical())


def test_coverage_is_nominal_in_a_thousand_repetitions():
    """n = 99 held-out rows and 20 new ones: probabilities are continuous, so the coverage of "probability" is 0.9 exactly."""
    shares = []
    for seed in range(1000):
        (p, y), (p_new, y_new) = problem(99, 2 * seed), problem(20, 2 * seed + 1)
        sets = ConformalSets.fit(classes(p), torch.tensor(y), score="probability").sets(classes(p_new), 0.9)
        shares.append(sets[torch.arange(20), torch.tensor(y_new)].double().mean().item())
    assert abs(np.mean(shares) - 0.9) < 4 * np.sqrt(0.09 * (1 / 20 + 1 / 101) / 1000)


def test_cumulative_sets_cover_at_least_the_level():
    (p, y), (p_new, y_new) = problem(5000, 0), problem(5000, 1)
    sets = ConformalSets.fit(classes(p), torch.tensor(y)).sets(classes(p_new), 0.9)
    share = sets[torch.arange(5000), torch.tensor(y_new)].double().mean().item()
    assert 0.9 - 4 * np.sqrt(0.09 / 5000 * 2) < share
    assert sets[torch.arange(5000), torch.tensor(p_new.argmax(1))].all()
    size, surest = sets.sum(1).double(), torch.tensor(p_new.max(1))
    assert size[surest < 0.5].mean() > size[surest > 0.9].mean() + 1  # larger where the model is unsure


@pytest.mark.parametrize(("score", "theirs"), [("probability", "lac"), ("cumulative", "aps")])
@pytest.mark.parametrize("n", [50, 99, 300])
def test_split_sets_are_mapies(score, theirs, n, monkeypatch):
    """MAPIE takes a random part of the true class' own probability off its score; ours takes all of it off."""
    pytest.importorskip("mapie", reason="MAPIE is not installed: pip install mapie")
    whole = SimpleNamespace(uniform=lambda size: np.ones(size))
    monkeypatch.setattr("mapie.conformity_scores.sets.aps.check_random_state", lambda seed: whole)
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Known(ClassifierMixin, BaseEstimator):
        """Take the probabilities for the inputs."""

        def fit(self, X, y):
            self.classes_ = np.arange(5)
            return self

        def predict_proba(self, X):
            return X / X.sum(1, keepdims=True)

        def predict(self, X):
            return X.argmax(1)

    (p, y), (p_new, _) = problem(n, 0), problem(40, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SplitConformalClassifier(
            Known().fit(p, y), confidence_level=list(LEVELS), conformity_score=theirs, prefit=True
        ).conformalize(p, y)
        _, expected = model.predict_set(
            p_new, conformity_score_params={"include_last_label": True} if theirs == "aps" else None
        )
    ours = ConformalSets.fit(classes(p), torch.tensor(y), score=score)
    for k, level in enumerate(LEVELS):
        np.testing.assert_array_equal(ours.sets(classes(p_new), level).numpy(), expected[:, :, k])


def test_cross_sets_count_as_the_definition_says():
    folds = [problem(30, seed) for seed in range(3)]
    elsewhere = [problem(10, 10 + seed)[0] for seed in range(3)]
    cross = CrossConformalSets.fit([(classes(p), torch.tensor(y)) for p, y in folds], score="probability")
    sets = cross.sets([classes(p) for p in elsewhere], 0.8).numpy()
    for i in range(10):
        for c in range(5):
            above = sum(
                np.sum(1 - p[np.arange(30), y] < 1 - q[i, c] - 1e-12)
                for (p, y), q in zip(folds, elsewhere, strict=True)
            )
            assert sets[i, c] == (above < 0.8 * 91)


def test_two_classes_as_one_output():
    p, y = problem(60, 0, C=2)
    two, one = classes(p), Binary(torch.tensor(special.logit(p[:, 1]))[None], Bernoulli())
    for score in ("probability", "cumulative"):
        a, b = (ConformalSets.fit(q, torch.tensor(y), score=score).sets(q) for q in (two, one))
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda p, y: ConformalSets.fit(p, y, score="aps"), "score='aps' is not valid: choose one of 'probability'"),
        (lambda p, y: ConformalSets.fit(p, y[:3]), "give 9 labels from 0 to 4"),
        (lambda p, y: ConformalSets.fit(p, y + 4), "give 9 labels from 0 to 4"),
        (lambda p, y: ConformalSets.fit(p, y * 0.9), "give 9 labels from 0 to 4"),
        (lambda p, y: CrossConformalSets.fit([(p, y)]), "at least 2 folds"),
        (lambda p, y: CrossConformalSets.fit([(p, y)] * 2).sets([p]), "all 2 folds, got 1"),
    ],
)
def test_wrong_use_is_explained(act, message):
    p, y = problem(9, 0)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        act(classes(p), torch.tensor(y))
    assert message in str(error.value)
