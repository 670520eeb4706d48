"""Classification with calibrated probabilities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from vadam.estimators.base import VadamEstimator, one_a_row
from vadam.likelihoods import Bernoulli, Categorical
from vadam.prediction import Binary, Classes


class VadamClassifier(ClassifierMixin, VadamEstimator):
    """A Bayesian perceptron for tables with classes: probabilities averaged over a Gaussian posterior of the weights.

    Prior precision and temperature are tuned by the cross-validated log-likelihood. The arguments are those of :class:`VadamRegressor`;
    ``noise_precision`` and ``predictive_noise_precision`` have no meaning here.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> model = VadamClassifier(random_state=0, tune=False).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    >>> model.classes_.tolist(), model.predict([[3.0, 0.0]]).tolist()
    (['no', 'yes'], ['yes'])
    """

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {self.classes_[0]!r}: a classifier needs at least two classes")
        self._check_folds(len(X))
        rows = np.bincount(numbers).min()
        cut: Any = StratifiedKFold if rows >= self.folds else KFold
        folds = cut(self.folds, shuffle=True, random_state=0).split(X, numbers) if self.tune else ()
        if len(self.classes_) == 2:
            return self._fit(X, numbers.astype(np.float64), "bernoulli", 1, folds)
        return self._fit(X, numbers, "categorical", len(self.classes_), folds)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        number = self.predict_proba(X).argmax(1)
        return self.classes_[number]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of the classes, in the order of ``classes_``."""
        outputs = self._outputs(X)
        if len(self.classes_) > 2:
            return Classes(outputs, Categorical()).probs.numpy()
        one = Binary(outputs.squeeze(-1), Bernoulli()).probs
        return torch.stack([1 - one, one], dim=1).numpy()

    def log_likelihood(self, X: Any, y: Any) -> float:
        """The mean log probability of the labels ``y``; the larger the better."""
        probs = self.predict_proba(X)
        labels = one_a_row(y, len(probs)).tolist()
        classes = self.classes_.tolist()
        place = {label: k for k, label in enumerate(classes)}
        if unseen := [label for label in labels if label not in place]:
            known = ", ".join(map(repr, classes[:10])) + (", …" if len(classes) > 10 else "")
            raise ValueError(
                f"y has the label {unseen[0]!r}, which the model was not fitted with (its classes are {known}): it has "
                "no probability, and the log-likelihood would be −∞; leave these rows out, or fit with some of them"
            )
        return float(np.log(probs[np.arange(len(probs)), [place[label] for label in labels]]).mean())
