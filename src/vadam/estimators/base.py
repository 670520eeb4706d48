"""What the two estimators have in common: tuning by cross-validation, the final fit, and files."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from vadam.ensemble import MLP, Member, Method, Stack, cosine, train
from vadam.estimators import saving
from vadam.estimators.family import method_of
from vadam.tuning import Tuned, noise_precision, tune

PRIOR_PRECISIONS = (math.exp(-7), math.exp(4))
NOISE_PRECISIONS = (1.0, math.exp(9))
TEMPERATURES = (math.exp(-5), 1.0)
DROPOUT_RATES = (0.002, 0.5)
MANY_ROWS = 1_000
"""From there on minibatches are larger and epochs fewer."""
STEPS = 4_000
"""At least: by then the narrow start of the posterior is forgotten."""
RANDOM_POINTS, POINTS_AT_ONCE = 10, 5
SEEDS_APART = 1_000
"""From one fold to the next; members of a mixture are one apart."""


class VadamEstimator(BaseEstimator):
    """A perceptron with a posterior over its weights; :class:`VadamRegressor` says what the arguments mean."""

    def __init__(
        self,
        hidden: tuple[int, ...] = (50,),
        *,
        activation: str = "relu",
        optimizer: str | Method = "vadam",
        lr: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        samples: int = 1,
        prior_precision: float = 1.0,
        noise_precision: float = 10.0,
        predictive_noise_precision: float | None = None,
        temperature: float = 1.0,
        dropout: float = 0.05,
        tune: bool = True,
        budget: int = 30,
        folds: int = 5,
        members: int = 5,
        predict_samples: int = 100,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.optimizer = optimizer
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.samples = samples
        self.prior_precision = prior_precision
        self.noise_precision = noise_precision
        self.predictive_noise_precision = predictive_noise_precision
        self.temperature = temperature
        self.dropout = dropout
        self.tune = tune
        self.budget = budget
        self.folds = folds
        self.members = members
        self.predict_samples = predict_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, X: np.ndarray, y: np.ndarray, likelihood: str, outputs: int, folds: Iterable[Any]) -> Self:
        """Tune on ``folds``, pairs of training and test rows, then train ``members`` networks on all rows.

        Where the noise was tuned and that of predictions is not given, as many are trained on each fold at the point
        found, and the noise of predictions is fitted to the rows that they have not seen.
        """
        self._check_arguments()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        network = MLP(X.shape[1], *self.hidden, outputs, activation=self.activation)
        method = self._method()
        whole = Member(X, y, seed=seed, epochs=self._epochs(len(X)), lr=self.lr, **self._given(method))
        parts = [
            replace(whole, train=rows, test=others, seed=seed + SEEDS_APART * k)
            for k, (rows, others) in enumerate(folds, start=1)
        ]
        training: dict[str, Any] = {
            "likelihood": likelihood,
            "batch_size": self._batch_size(len(X)),
            "jobs": self._jobs(),
            "schedule": cosine,
        }
        self.tuned_: Tuned | None = None
        space = self._space(method, likelihood)
        if parts and space:
            search: dict[str, Any] = {
                "trials": int(self.budget),
                "startup": RANDOM_POINTS,
                "at_once": POINTS_AT_ONCE,
                "seed": seed,
            }
            self.tuned_ = tune({"": parts}, space, network, method, **search, **training)[""]
            whole, *parts = (replace(member, **self.tuned_.point) for member in (whole, *parts))  # type: ignore[arg-type]
        given = self.predictive_noise_precision
        fits_noise = self.tuned_ is not None and likelihood == "gaussian" and given is None
        networks = [whole, *parts] if fits_noise else [whole]
        members = [replace(m, test=None, seed=m.seed + k) for m in networks for k in range(int(self.members))]
        result = train(members, network, method, **training)
        if result.diverged.any() or result.stack is None:
            raise ValueError(
                f"the training diverged with prior_precision={whole.prior_precision:.3g}, lr={method.values_of(whole)['lr']}: "
                "give a smaller lr"
            )
        K = int(self.members)
        stacks = [result.stack[range(n * K, n * K + K)] for n in range(len(networks))]
        self.stack_ = stacks[0]
        self.prior_precision_, self.temperature_ = whole.prior_precision, whole.temperature
        self.noise_precision_ = whole.noise_precision if given is None else given
        if fits_noise:
            self.noise_precision_ = self._fitted_noise(stacks, networks)
        return self

    def _fitted_noise(self, stacks: list[Stack], networks: list[Member]) -> float:
        """For targets of variance 1, as that of the training."""
        scale = float(stacks[0].scaling.y_std[0]) ** 2
        left_out = [
            (
                stack.outputs(network.x[network.test], self.predict_samples).flatten(0, 1),
                _column(network.y[network.test]),
            )
            for stack, network in zip(stacks[1:], networks[1:], strict=True)
        ]
        return scale * noise_precision(left_out)

    def _given(self, method: Method) -> dict[str, Any]:
        return {
            "prior_precision": self.prior_precision,
            "noise_precision": self.noise_precision,
            "temperature": self.temperature,
            "dropout": self.dropout if method.drops_out else 0.0,
        }

    def _method(self) -> Method:
        method = method_of(self.optimizer, int(self.samples))
        narrower = self.prior_precision / self.temperature > _start(method)
        if isinstance(self.optimizer, str) and narrower and not self.tune:
            return method.replace(init_precision=None)  # at the prior
        return method

    def _batch_size(self, rows: int) -> int:
        return int(self.batch_size or 0) or (32 if rows < MANY_ROWS else 128)

    def _epochs(self, rows: int) -> int:
        """What was asked for; otherwise 400, or 200 for many rows, and more for few, so that training takes at least 4,000 steps."""
        usual = 400 if rows < MANY_ROWS else 200
        return int(self.epochs or 0) or max(usual, -(-STEPS // -(-rows // self._batch_size(rows))))

    def _jobs(self) -> int:
        if self.n_jobs in (None, 1):
            return 1
        from joblib import effective_n_jobs

        return int(effective_n_jobs(self.n_jobs))

    def _space(self, method: Method, likelihood: str) -> dict[str, tuple[float, float]]:
        """What there is to search; nothing for classes without prior."""
        space = {}
        if method.drops_out:
            space["dropout"] = DROPOUT_RATES
        elif method.has_prior:
            start = _start(method)
            low, high = PRIOR_PRECISIONS[0], min(PRIOR_PRECISIONS[1], start)
            coldest = max(TEMPERATURES[0], high / start)
            space["prior_precision"] = (low, high)
            if method.has_posterior and coldest < TEMPERATURES[1]:
                space["temperature"] = (coldest, TEMPERATURES[1])
        if likelihood == "gaussian":
            space["noise_precision"] = NOISE_PRECISIONS
        return space

    def _check_arguments(self) -> None:
        """When fitting, not before: scikit-learn clones estimators and sets arguments one by one."""
        optional = [name for name in ("batch_size", "epochs") if getattr(self, name) is not None]
        for name in ("members", "samples", "predict_samples", *optional, *(("budget",) if self.tune else ())):
            value = getattr(self, name)
            if not _counts(value):
                raise ValueError(f"{name}={value!r} is not valid: give a whole number from 1")
        optional = [name for name in ("lr", "predictive_noise_precision") if getattr(self, name) is not None]
        for name in ("prior_precision", "noise_precision", "temperature", *optional):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
                raise ValueError(f"{name}={value!r} is not valid: give a positive number")
        hidden = self.hidden  # an iterator would be used up by the first fit
        if isinstance(hidden, str) or not isinstance(hidden, Collection) or not all(map(_counts, hidden)):
            raise ValueError(
                f"hidden={hidden!r} is not valid: give the sizes of the hidden layers, e.g. (50,) for one layer of 50"
            )

    def _check_folds(self, rows: int) -> None:
        if self.tune and (not isinstance(self.folds, Integral) or not 2 <= self.folds <= rows):
            raise ValueError(
                f"folds={self.folds!r} is not valid for n_samples={rows}: cross-validation needs from 2 folds to one a row; "
                "give fewer folds, or tune=False"
            )

    def refit(self, X: Any, y: Any) -> Self:
        """A new estimator for these rows, with all that the tuning of this one has found, the noise of predictions too.

        What was found becomes its arguments, so that its clones keep it.
        """
        check_is_fitted(self, "stack_")
        found = {"prior_precision": self.prior_precision_, "temperature": self.temperature_}
        if self.stack_.likelihood == "gaussian":
            found["noise_precision"] = float(self.stack_.noise_precision[0])  # that of the training
            found["predictive_noise_precision"] = self.noise_precision_
        if self.stack_.dropout is not None:
            found["dropout"] = float(self.stack_.dropout[0])
        return clone(self).set_params(**found, tune=False).fit(X, y)

    def _outputs(self, X: Any) -> Tensor:
        """Outputs of all members and samples, [members · samples, n, outputs], in the units of the targets."""
        check_is_fitted(self, "stack_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.stack_.outputs(X, self.predict_samples).flatten(0, 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file; :meth:`load` reads it."""
        check_is_fitted(self, "stack_")
        saving.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator that :meth:`save` wrote. Nothing is unpickled."""
        return saving.load(path, cls)


def _start(method: Method) -> float:
    """Return the precision that the posterior starts with if it must not be below the prior's; otherwise infinity."""
    start = method.settings.get("init_precision")
    return float(start) if method.starts_above_prior and start is not None else math.inf


def _counts(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def one_a_row(y: Any, rows: int) -> np.ndarray:
    y = column_or_1d(y)
    if len(y) != rows:
        raise ValueError(f"y has {len(y)} entries, but X has {rows} rows: give one for each row")
    return y


def _column(y: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(y, dtype=np.float64))[:, None]
