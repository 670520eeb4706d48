"""Regression with calibrated intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import validate_data

from vadam.estimators.base import VadamEstimator, one_a_row
from vadam.likelihoods import Gaussian
from vadam.prediction import Regression


class VadamRegressor(RegressorMixin, VadamEstimator):
    """A Bayesian perceptron for tables: y = f(x; θ) + noise, with a Gaussian posterior over θ.

    Inputs and targets are standardised. Prior and noise precision and the temperature are found by Bayesian optimisation of the
    cross-validated predictive log-likelihood; all folds are trained as one stack. The noise of predictions is then fitted to the
    rows that the folds leave out. The defaults are those of Table 1's protocol ``best``, but for the search, which
    tries 30 points, ten at random, then five at a time, instead of 20, and for the 4,000 steps that a training takes at
    least.

    Args:
        hidden: sizes of the hidden layers. activation: "relu" or "tanh".
        optimizer: the name of a rule, e.g. "vadam" or "vogn", or "map", "mc-dropout"; or a method of its own settings, e.g.
            ``vadam.ensemble.Method("vadam", lr=0.003, samples=20)``.
        lr: the learning rate at the start, from where it falls to zero along a cosine; None for the optimizer's.
        epochs: passes over the data; None for 400, or 200 from 1,000 rows on, or as many as make 4,000 steps.
        batch_size: examples a step; None for 32, or 128 from 1,000 rows on.
        samples: Monte-Carlo samples a step.
        tune: find precisions and temperature (for MC-Dropout the rate and the noise precision); otherwise those given are used.
        budget: how many settings are tried. folds: of the cross-validation.
        prior_precision: λ of the prior N(0, 1/λ) on every weight. noise_precision: τ, for targets of variance 1.
        predictive_noise_precision: τ of predictions, for targets of variance 1; None: fitted to the rows left out when
            tuned, otherwise ``noise_precision``.
        temperature: T of the posterior to the power 1/T. Below 1 the weights spread less.
        dropout: the rate of "mc-dropout".
        members: the posterior is a mixture of that many Gaussians, from different starts.
        predict_samples: samples of the weights, of each member, for a prediction.
        random_state: makes the fit repeatable; predictions of a fitted estimator always are.
        n_jobs: processes.

    Attributes:
        prior_precision_, temperature_: what was used. noise_precision_: that of predictions. tuned_: all that was tried.
        stack_: the posteriors.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (100, 1))
    >>> y = 5 * X[:, 0] + rng.normal(size=100)
    >>> model = VadamRegressor(random_state=0, tune=False).fit(X, y)
    >>> mean, std = model.predict([[0.0], [1.0]], return_std=True)
    >>> mean.shape, std.shape, model.predict_quantiles([[0.0]], (0.05, 0.95)).shape
    ((2,), (2,), (1, 2))
    """

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        self._check_folds(len(X))
        folds = KFold(self.folds, shuffle=True, random_state=0).split(X) if self.tune else ()
        return self._fit(X, y, "gaussian", 1, folds)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of y; with ``return_std`` also its standard deviation, of function and noise together."""
        prediction = self._prediction(X)
        if return_std:
            return prediction.mean.numpy(), prediction.std.numpy()
        return prediction.mean.numpy()

    def predict_quantiles(self, X: Any, q: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """The quantiles of y at the levels ``q``, [n, len(q)]: of the predictive distribution itself, not of a Gaussian."""
        return self._prediction(X).quantile(torch.tensor(q, dtype=torch.float64)).T.numpy()

    def log_likelihood(self, X: Any, y: Any) -> float:
        """The mean log density of targets ``y``; the larger the better."""
        prediction = self._prediction(X)
        y = one_a_row(y, len(prediction.mean)).astype(np.float64)
        return float(prediction.log_prob(torch.from_numpy(y)).mean())

    def _prediction(self, X: Any) -> Regression:
        outputs = self._outputs(X).squeeze(-1)
        return Regression(outputs, Gaussian(self.noise_precision_ / float(self.stack_.scaling.y_std[0]) ** 2))
