"""Regression with calibrated intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date, timedelta
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted

from vadam.calibration.ranks import check_level, kth_smallest, upper_rank
from vadam.default_device import on_cpu
from vadam.estimators.arguments import check_folds
from vadam.estimators.base import NOISE_PRECISIONS, VadamEstimator, tensor
from vadam.estimators.encoding import note_on_stand_ins
from vadam.estimators.noise import PredictiveNoise
from vadam.estimators.search import Problem, held_out_noise, noisy_outputs
from vadam.estimators.targets import Transform, TransformedRegression
from vadam.prediction import Regression

NOISES = ("auto", "constant", "input")
TRANSFORMS = ("auto", "none", "log", "quantile")
LIKELIHOODS = {"constant": "gaussian", "input": "input-noise"}
STARTING_NOISE_PRECISION = 10.0
PITS_AT_MOST = 2_000


@dataclass(eq=False, repr=False)
class VadamRegressor(RegressorMixin, VadamEstimator):
    """A Bayesian perceptron for tables: y = f(x; θ) + noise, with a mixture of Gaussian posteriors over θ.

    Tables may be DataFrames with numbers, categories, dates and missing values; ``encoder_`` says what is made of them. Prior
    precision, temperature, the kind of noise and a transform of the target are found by successive halving on folds of the
    training rows, and the noise of predictions is fitted to rows that the folds leave out, heavy tails included.

    Args:
        hidden: sizes of the hidden layers; None for one layer of 50, or two of 100 from 2,000 rows on. activation: "relu" or "tanh".
        optimizer: "vadam", "vprop", "vogn", "bbvi", "ivon", "vadagrad", "map", "mc-dropout", or a ``vadam.ensemble.Method``.
        noise: "constant", "input" for noise that depends on the input, or "auto" to choose by cross-validation.
        target_transform: "none", "log", "quantile", or "auto" to choose by cross-validation where the target is skewed.
        lr: the learning rate at the start, from where it falls to zero along a cosine; None for the optimizer's.
        epochs: passes over the data; None for as many as make 2,000 steps, or 40 from 2,000 rows on.
        batch_size: examples per step; None for 32, 128 from 1,000 rows on, 256 from 10,000 on.
        samples: Monte-Carlo samples per step.
        tune: search; otherwise the numbers given are used.
        budget: how many settings are tried. folds: of the cross-validation.
        prior_precision: λ of the prior N(0, 1/λ) on every weight.
        noise_precision: τ of the noise in training, for targets of variance 1; where noise depends on the input it starts from there.
        noise_scale, noise_dof: a factor on the noise of predictions and its degrees of freedom; None: fitted to rows left out when
            tuned, otherwise 1 and infinity.
        temperature: T of the posterior to the power 1/T. Below 1 the weights spread less. A weight of the data alone is an argument
            of the optimizer: ``Method("vadam", data_weight=10.0)``.
        dropout: the rate of "mc-dropout".
        members: the posterior is a mixture of that many Gaussians, from different starts.
        predict_samples: samples of the weights, of each member, for a prediction.
        random_state: makes the fit repeatable; predictions of a fitted estimator always are.
        n_jobs: processes. verbose: True shows progress on stderr; or a function of the share that is done and a label.

    Attributes:
        noise_, transform_, prior_precision_, temperature_: what was used. predictive_noise_: that of predictions.
        encoder_: the columns. search_: all that was tried. stack_: the posteriors.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (100, 1))
    >>> y = 5 * X[:, 0] + rng.normal(size=100)
    >>> model = VadamRegressor(random_state=0, tune=False).fit(X, y)
    >>> mean, std = model.predict([[0.0], [1.0]], return_std=True)
    >>> mean.shape, std.shape, model.predict_interval([[0.0]], 0.9).shape
    ((2,), (2,), (1, 2))
    """

    _: KW_ONLY
    noise: str = "auto"
    target_transform: str = "auto"
    noise_precision: float = 10.0
    noise_scale: float | None = None
    noise_dof: float | None = None

    @on_cpu
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table and its targets, [n] or [n, targets]; rows count in proportion to ``sample_weight``."""
        self._check_kinds()
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: give one target for each row")
        X = self._checked(X, reset=True)
        y = self._targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        check_consistent_length(X, y)
        if len(y) and float(np.abs(y).max()) > 1e100:
            raise ValueError(
                f"y holds {y[np.abs(y).argmax()]:.3g}, which is too large to compute with: use other units"
            )
        X, y, weight = self._counted(X, y, sample_weight)
        X = self._learn_columns(X)
        _warn_of_stand_ins(y)
        check_folds(self, len(X))
        problem = self._problem(X, y, weight)
        folds = KFold(int(self.folds), shuffle=True, random_state=0).split(X) if self.tune else ()
        parts = self._train(problem, self._kinds(y), list(folds))
        self.noise_ = "input" if self.setting_.likelihood == "input-noise" else "constant"
        transform, _ = problem.transformed(self.setting_.transform)
        self.transform_: Transform | None = transform
        self._calibrate(problem, parts)
        return self

    @on_cpu
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on with new rows of the same table: the posterior so far is the prior. The first call is :meth:`fit`.

        Columns, scales and the noise of predictions stay those of the first call; weights are compared with those before.
        """
        if not hasattr(self, "stack_"):
            return self.fit(X, y, sample_weight)
        y = self._targets(y)
        given, targets = (y.shape[1] if y.ndim > 1 else 1), self.held_out_pits_.shape[1]
        if given != targets:
            raise ValueError(f"y has {given} targets a row, but those of the first call had {targets}: give as many")
        X = self._checked(X, reset=False)
        check_consistent_length(X, y)
        X, y, sample_weight = self._counted(X, y, sample_weight)
        _warn_of_stand_ins(y)
        if self.transform_ is not None and self.transform_.kind == "log" and y.min() <= 0:
            raise ValueError(
                f"the first call took the logarithm of its targets, but y holds {y.min():g}: fit all rows anew"
            )
        return self._go_on(X, y if self.transform_ is None else self.transform_.forward(y), sample_weight)

    def _targets(self, y: Any) -> np.ndarray:
        """Return targets as numbers; raise ValueError for dates and durations, whose unit and gaps would be lost."""
        given = np.asarray(y)
        if given.dtype.kind in "mM" or (
            given.dtype == object and any(isinstance(value, date | timedelta) for value in given.flat)
        ):
            raise ValueError(
                "y holds dates or durations: give numbers, such as y.dt.total_seconds() or (y - y.min()).dt.total_seconds()"
            )
        return np.asarray(_check_y(y, multi_output=True, y_numeric=True, estimator=self), dtype=np.float64)

    def _calibrate(self, problem: Problem, parts: list[Any]) -> None:
        scale, dof = (None if given is None else float(given) for given in (self.noise_scale, self.noise_dof))
        self.predictive_noise_ = PredictiveNoise(scale or 1.0, dof or math.inf)
        if parts and (scale is None or dof is None):
            fitted, _ = held_out_noise(problem, self.setting_, parts, int(self.predict_samples), scale=scale, dof=dof)
            self.predictive_noise_ = fitted.noise
        pits = [
            self._distribution(noisy_outputs(stack, problem.x[out], int(self.predict_samples)))
            .cdf(tensor(problem.y[out]).reshape(len(out), -1))
            .numpy()
            for stack, (_, out) in parts
        ]
        every = np.concatenate(pits) if pits else np.zeros((0, problem.targets))
        if parts and problem.weight is not None:
            every = _resampled(every, np.concatenate([problem.weights(out) for _, (_, out) in parts]))
        self.held_out_pits_ = np.sort(every[:: max(1, len(every) // PITS_AT_MOST)], axis=0)

    def _kinds(self, y: np.ndarray) -> list[tuple[str, str]]:
        """Return the likelihoods and transforms to choose from."""
        noises = ("constant", "input") if self.noise == "auto" else (self.noise,)
        if self._method(1.0)(100).drops_out or not self.tune:
            noises = noises[:1]
        kind = self.target_transform
        transforms = ("none", *(Transform.candidates(y) if self.tune else ())) if kind == "auto" else (kind,)
        if kind in ("log", "quantile") and y.ndim > 1:
            raise ValueError(f"target_transform={kind!r} is for one target, but y has {y.shape[1]}: choose 'none'")
        if "log" in transforms and kind == "log" and y.min() <= 0:
            raise ValueError(
                f"target_transform='log' needs positive targets, but y holds {y.min():g}: choose 'auto' or 'none'"
            )
        kinds = [(LIKELIHOODS[noise], transform) for transform in transforms for noise in noises]
        return kinds[: len(noises)] + kinds if len(transforms) > 1 else kinds  # the plain target twice as often

    def _given(self, likelihood: str) -> dict[str, float]:
        return {**super()._given(likelihood), "noise_precision": float(self.noise_precision)}

    def _space(self, problem: Problem, likelihood: str) -> dict[str, tuple[float, float]]:
        return {**super()._space(problem, likelihood), "noise_precision": NOISE_PRECISIONS}

    def _found(self) -> dict[str, Any]:
        noise = self.predictive_noise_
        return {
            **super()._found(),
            "noise": self.noise_,
            "target_transform": self.transform_.kind if self.transform_ else "none",
            "noise_scale": noise.scale,
            "noise_dof": noise.dof,
        }

    @on_cpu
    def refit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Return a new estimator for these rows, with all that the tuning of this one has found, calibration included.

        What was found becomes its arguments, so that its clones keep it.
        """
        fitted = super().refit(X, y, sample_weight)
        fitted.held_out_pits_ = self.held_out_pits_
        return fitted

    def _fitted_state(self) -> dict[str, Any]:
        noise = self.predictive_noise_
        return {
            **super()._fitted_state(),
            "noise": {"scale": noise.scale, "dof": None if math.isinf(noise.dof) else noise.dof},
            "transform": self.transform_.as_dict() if self.transform_ else None,
            "pits": self.held_out_pits_.tolist(),
            "targets": self.held_out_pits_.shape[1],
        }

    def _restore_state(self, found: dict[str, Any]) -> None:
        super()._restore_state(found)
        scale, dof = float(found["noise"]["scale"]), found["noise"]["dof"]
        if not 0 < scale < math.inf:
            raise ValueError(f"the scale of the noise must be in (0, inf), got {scale!r}")
        if dof is not None and not float(dof) > 2:
            raise ValueError(f"the degrees of freedom of the noise must be above 2, got {dof!r}")
        self.predictive_noise_ = PredictiveNoise(scale, math.inf if dof is None else float(dof))
        self.transform_ = None if found["transform"] is None else Transform.from_dict(found["transform"])
        self.held_out_pits_ = np.array(found["pits"], float).reshape(-1, int(found["targets"]))
        self.noise_ = "input" if found["likelihood"] == "input-noise" else "constant"

    def _check_kinds(self) -> None:
        for name, allowed in (("noise", NOISES), ("target_transform", TRANSFORMS)):
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name}={value!r} is not valid: choose one of {', '.join(map(repr, allowed))}")
        if self.noise_dof is not None and not float(self.noise_dof) > 2:
            raise ValueError(
                f"noise_dof={self.noise_dof!r} is not valid: give a number above 2, so that the noise has a variance"
            )

    # Predictions -------------------------------------------------------------------------------------------------------------

    @on_cpu
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of y; with ``return_std`` also its standard deviation, of function and noise together."""
        parts = [_moments(self.predict_distribution(part), return_std) for _, part in self._blocks(X)]
        mean, *std = (_flat(torch.cat(values)) for values in zip(*parts, strict=True))
        return (mean, *std) if return_std else mean

    @on_cpu
    def predict_quantiles(self, X: Any, q: float | Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Return the quantiles of y at the levels ``q``, [n, len(q)], or [n, targets, len(q)] for several targets."""
        levels = torch.tensor(np.atleast_1d(q), dtype=torch.float64)
        if not len(levels):
            raise ValueError("q must hold at least one probability, got none")
        parts = [self.predict_distribution(part).quantile(levels) for _, part in self._blocks(X)]
        quantiles = torch.cat(parts, dim=-2)
        return _flat(quantiles.movedim(0, -1).squeeze(1) if quantiles.shape[-1] == 1 else quantiles.movedim(0, -1), 0)

    @on_cpu
    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Return lower and upper end of central intervals, [n, 2]: they held the share ``level`` of the rows left out in tuning.

        The ends are quantiles of the predictive distribution, at levels that are order statistics of held-out rows, as in
        conformal prediction. An untuned model has its own quantiles, and so has a level that needs more held-out rows; these are at
        least as wide as the widest of the rows.
        """
        check_level(level)
        return np.concatenate([self._interval(self.predict_distribution(part), level) for _, part in self._blocks(X)])

    def _interval(self, prediction: Regression, level: float) -> np.ndarray:
        tail = (1 - level) / 2
        low, high = torch.tensor(tail), torch.tensor(1 - tail)
        pits = tensor(self.held_out_pits_)
        n, ends = len(pits), []
        for target in range(pits.shape[1]):
            rank = min(n, upper_rank(n, 1 - tail))
            if n:
                low = kth_smallest(pits[:, target], n + 1 - rank).clamp(1e-6, 0.5)
                high = kth_smallest(pits[:, target], rank).clamp(0.5, 1 - 1e-6)
            if upper_rank(n, 1 - tail) > n:
                low, high = torch.tensor(tail).clamp(max=low), torch.tensor(1 - tail).clamp(min=high)
            part = _of_target(prediction, target, pits.shape[1])
            ends.append(torch.stack([part.quantile(float(low)), part.quantile(float(high))], dim=-1)[:, 0])
        return ends[0].numpy() if len(ends) == 1 else torch.stack(ends, dim=1).numpy()

    @on_cpu
    def predict_distribution(self, X: Any) -> Regression:
        """Return the predictive distribution: mean, std, epistemic and aleatoric parts, quantiles, densities, CRPS.

        It keeps every sample of every row. For more than some thousand rows, ask for the rows in parts.
        """
        return self._distribution(self._outputs(X, noisy_outputs))

    @on_cpu
    def log_likelihood(self, X: Any, y: Any) -> float:
        """Return the mean log density of targets ``y``; the larger the better."""
        check_is_fitted(self, "stack_")
        X = self._checked(X, reset=False)
        y = np.asarray(y, dtype=np.float64)
        y = y.reshape(len(y), -1)
        if y.shape != (len(X), self.held_out_pits_.shape[1]):
            raise ValueError(f"y has {len(y)} entries, but X has {len(X)} rows: give one for each row")
        values = [self.predict_distribution(part).log_prob(tensor(y[rows])) for rows, part in self._blocks(X)]
        return float(torch.cat(values).mean())

    def _distribution(self, samples: torch.Tensor) -> Regression:
        prediction = self.predictive_noise_.prediction(samples)
        if self.transform_ is None:
            return prediction
        return TransformedRegression(prediction.samples, prediction.likelihood, self.transform_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _warn_of_stand_ins(y: np.ndarray) -> None:
    """Warn of a number such as -999 in several targets."""
    for targets in y.reshape(len(y), -1).T:
        for note in note_on_stand_ins("y", targets):
            warnings.warn(f"column {note}", UserWarning, stacklevel=4)


def _resampled(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return sorted columns of equal weights in the place of values [n, T] with weights [n], as many as the weights are worth."""
    rows = max(1, round(weight.sum() ** 2 / (weight**2).sum()))
    order = np.argsort(values, axis=0)
    shares = np.cumsum(weight[order], axis=0) / weight.sum()
    places = [np.searchsorted(column, (np.arange(rows) + 0.5) / rows) for column in shares.T]
    return np.take_along_axis(values, np.take_along_axis(order, np.stack(places, axis=1), axis=0), axis=0)


def _moments(prediction: Regression, with_std: bool) -> tuple[torch.Tensor, ...]:
    return (prediction.mean, prediction.std) if with_std else (prediction.mean,)


def _of_target(prediction: Regression, target: int, targets: int) -> Regression:
    if targets == 1:
        return prediction
    return Regression(prediction.samples[..., [target, target + targets]], prediction.likelihood)


def _flat(values: torch.Tensor, axis: int = -1) -> np.ndarray:
    """Return an array, without the axis of the targets if there is one of them."""
    array: np.ndarray = values.numpy()
    return array[..., 0] if axis == -1 and array.ndim > 1 and array.shape[-1] == 1 else array
