"""What the two estimators have in common: tuning by cross-validation, the final fit, and files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from vadam.ensemble import MLP, Member, Method, Tuned, train, tune
from vadam.estimators import saving
from vadam.estimators.family import cosine, method_of

PRIOR_PRECISIONS = (0.02, 400.0)
NOISE_PRECISIONS = (0.5, 200.0)
DROPOUT_RATES = (0.002, 0.5)
STEPS = 800


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
        batch_size: int = 32,
        samples: int = 5,
        prior_precision: float = 1.0,
        noise_precision: float = 10.0,
        dropout: float = 0.05,
        tune: bool = True,
        budget: int = 30,
        folds: int = 5,
        members: int = 1,
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
        self.dropout = dropout
        self.tune = tune
        self.budget = budget
        self.folds = folds
        self.members = members
        self.predict_samples = predict_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, X: np.ndarray, y: np.ndarray, likelihood: str, outputs: int, folds: Iterable[Any]) -> Self:
        """Tune on ``folds``, pairs of training and test rows, then train ``members`` networks on all rows."""
        self._check_arguments()
        method = method_of(self.optimizer, int(self.samples))
        network = MLP(X.shape[1], *self.hidden, outputs, activation=self.activation)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        common: dict[str, Any] = {
            "prior_precision": self.prior_precision,
            "noise_precision": self.noise_precision,
            "dropout": self.dropout if method.drops_out else 0.0,
            "lr": self.lr,
        }
        training: dict[str, Any] = {
            "likelihood": likelihood,
            "batch_size": int(self.batch_size),
            "jobs": self._jobs(),
            "schedule": cosine,
        }
        self.tuned_: Tuned | None = None
        space = self._space(method, likelihood)
        if self.tune and space:
            cell = [
                Member(X, y, train=rows, test=others, seed=seed + k, epochs=self._epochs(len(rows)), **common)
                for k, (rows, others) in enumerate(folds)
            ]
            searched = tune({"": cell}, space, network, method, trials=self.budget, startup=10, seed=seed, **training)
            self.tuned_ = searched[""]
            common |= self.tuned_.point
        final = [Member(X, y, seed=seed + k, epochs=self._epochs(len(X)), **common) for k in range(int(self.members))]
        result = train(final, network, method, **training)
        if result.diverged.any() or result.stack is None:
            raise ValueError(
                f"the training diverged with prior_precision={common['prior_precision']:.3g}, lr={self.lr or method.lr}: "
                "give a smaller lr"
            )
        self.stack_ = result.stack
        self.prior_precision_ = common["prior_precision"]
        self.noise_precision_ = common["noise_precision"]
        return self

    def _epochs(self, rows: int) -> int:
        """What was asked for; otherwise 40, and more for few rows, so that training takes at least 800 steps."""
        return int(self.epochs or 0) or max(40, -(-STEPS // -(-rows // self.batch_size)))

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
            space["prior_precision"] = PRIOR_PRECISIONS
        if likelihood == "gaussian":
            space["noise_precision"] = NOISE_PRECISIONS
        return space

    def _check_arguments(self) -> None:
        """When fitting, not before: scikit-learn clones estimators and sets arguments one by one."""
        whole = ("members", "samples", "batch_size", "predict_samples", *(() if self.epochs is None else ("epochs",)))
        for name in whole:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}={value!r} is not valid: give a whole number from 1")
        for name in ("prior_precision", "noise_precision", *(() if self.lr is None else ("lr",))):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
                raise ValueError(f"{name}={value!r} is not valid: give a positive number")
        if not isinstance(self.hidden, Iterable) or isinstance(self.hidden, str):
            raise ValueError(
                f"hidden={self.hidden!r} is not valid: give the sizes of the hidden layers, e.g. (50,) for one layer of 50"
            )

    def _check_folds(self, rows: int) -> None:
        if self.tune and (not isinstance(self.folds, int) or not 2 <= self.folds <= rows):
            raise ValueError(
                f"folds={self.folds!r} is not valid for n_samples={rows}: cross-validation needs from 2 folds to one a row; "
                "give fewer folds, or tune=False"
            )

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
