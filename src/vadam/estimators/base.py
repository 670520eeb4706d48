"""The common part of the two estimators: columns, the search, the final networks, and files."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from vadam.default_device import on_cpu
from vadam.ensemble import Member, Method, Scaling, Stack, cosine, train
from vadam.estimators import saving, sizing
from vadam.estimators.arguments import check_arguments
from vadam.estimators.encoding import COUNTED_ID, FILLS, NAMED_ID, TableEncoder
from vadam.estimators.more_rows import Earlier, Update
from vadam.estimators.optimizers import method_of
from vadam.estimators.progress import Progress, Reporter
from vadam.estimators.search import (
    FAR_OUT,
    Fold,
    Problem,
    Search,
    Setting,
    fold_members,
    limits_of,
    random_settings,
    rare_outliers,
    search,
    trained,
    wild,
)

PRIOR_PRECISIONS = (0.03, 30.0)
NOISE_PRECISIONS = (2.0, 2_000.0)
TEMPERATURES = (0.01, 1.0)
DROPOUT_RATES = (0.002, 0.5)
HELD_OUT_MEMBERS = 5
"""Largest number of networks per fold that predict its held-out rows, on which the model is calibrated.

Fewer than the model has would make its intervals too wide: a mixture of more networks errs less.
"""
ROWS_AT_ONCE = 2_000
"""Number of rows that are predicted at once: each has an output for every sample of every network."""
FLOATS_OF_HELD_OUT_ROWS = 2**24
"""Number of outputs at held-out rows beyond which only some of these rows calibrate the model, so that they fit into memory."""
LINEAR_UP_TO = 2.0
"""Distance from the centre beyond which inputs grow as a logarithm, so that outliers do not dominate the network.

Chosen among 2, 3 and a smooth squeeze of all inputs, by cross-validation on five generated tables and the training rows of four others.
"""


@dataclass(eq=False, repr=False)
class VadamEstimator(BaseEstimator):
    """A perceptron with a posterior over its weights; :class:`VadamRegressor` says what the arguments mean."""

    hidden: tuple[int, ...] | None = None
    _: KW_ONLY
    activation: str = "relu"
    optimizer: str | Method = "vadam"
    lr: float | None = None
    epochs: int | None = None
    batch_size: int | None = None
    samples: int = 1
    prior_precision: float = 1.0
    temperature: float = 0.1
    dropout: float = 0.05
    tune: bool = True
    budget: int = 16
    folds: int = 5
    members: int = 5
    predict_samples: int = 100
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: bool | Progress = False

    # Columns -----------------------------------------------------------------------------------------------------------------

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return a DataFrame as it is, or an array of numbers; ``reset`` remembers the columns, otherwise they are compared.

        Where one of training and prediction has a DataFrame and the other an array, columns are compared by their order.
        """
        if hasattr(X, "to_pandas") and not hasattr(X, "iloc"):  # polars, pyarrow
            X = X.to_pandas()
        rows = 2 if reset else 1
        if hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) < rows:
                raise ValueError(f"X has {len(X)} rows: give at least {rows}")
            return X if reset else self._read(X)
        if isinstance(X, np.ndarray | list | tuple) and np.asarray(X).dtype.kind in "mM":
            raise ValueError(
                "X is an array of dates or durations, whose unit and gaps would be lost: give a DataFrame, or numbers"
            )
        X = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=rows
        )
        if reset or not hasattr(self, "feature_names_in_"):
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=self.feature_names_in_)

    def _read(self, X: Any) -> Any:
        """Return a DataFrame with the texts of numbers and dates read; warn of guesses and of what cannot be read."""
        X, notes = self.encoder_.read(X)
        for note in notes:
            warnings.warn(f"column {note}", UserWarning, stacklevel=2)
        return X

    def _counted(self, X: Any, y: np.ndarray, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Return the rows that count, their targets and weights: a row of weight 0 is left out, as if it were not there."""
        if sample_weight is None:
            return X, y, None
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (least := weight.min()) < 0:
            raise ValueError(f"sample_weight holds {least:g}: give numbers from 0, one for each row")
        rows = np.flatnonzero(weight)
        if not len(rows):
            raise ValueError("sample_weight is 0 for every row: give some of them a positive weight")
        if len(rows) == len(weight):
            return X, y, weight
        return X.iloc[rows] if hasattr(X, "iloc") else X[rows], y[rows], weight[rows]

    def _learn_columns(self, X: Any) -> np.ndarray:
        """Fit the encoder of the columns to a checked table; return its numbers, squeezed."""
        self.encoder_ = TableEncoder().fit(X)
        for name, reason in self.encoder_.left_out.items():
            if reason in (NAMED_ID, COUNTED_ID):
                warnings.warn(f"column {name!r} is left out: {reason}", UserWarning, stacklevel=4)
        for note in self.encoder_.notes:
            warnings.warn(f"column {note}", UserWarning, stacklevel=4)
        values = self.encoder_.encode(X).values
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
        std = values.std(0)
        spread = np.where(high > low, (high - low) / 1.349, np.where(std > 0, std, 1.0))
        self.centre_, self.spread_ = middle, np.maximum(spread, 1e-12 * np.abs(middle))
        return self._squeezed(values)

    def _squeezed(self, values: np.ndarray) -> np.ndarray:
        z = (values - self.centre_) / self.spread_
        beyond = np.maximum(np.abs(z), LINEAR_UP_TO) / LINEAR_UP_TO
        return np.clip(z, -LINEAR_UP_TO, LINEAR_UP_TO) * (1 + np.log(beyond))

    def _outputs(self, X: Any, outputs: Callable[[Stack, np.ndarray, int], Tensor]) -> Tensor:
        """Return the outputs of all members and samples at the rows of a table, [members · samples, n, outputs].

        Rows with values that were never seen in training are filled in ``FILLS`` ways, and the samples share them out.
        """
        check_is_fitted(self, "stack_")
        X = self._checked(X, reset=False)
        encoded = self.encoder_.encode(X)
        found = outputs(self.stack_, self._squeezed(encoded.values), int(self.predict_samples))
        if encoded.unseen.any():
            rows = np.flatnonzero(encoded.unseen)
            part = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
            for fill in range(FILLS):
                values = self.encoder_.encode(part, fill=fill).values
                other = outputs(self.stack_, self._squeezed(values), int(self.predict_samples))
                found[fill::FILLS, rows] = other[fill::FILLS]
        return found

    def _blocks(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Yield the rows of a table in blocks, so that the samples of a long one need not fit into memory."""
        check_is_fitted(self, "stack_")
        X = self._checked(X, reset=False)
        for first in range(0, len(X), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            yield rows, X.iloc[rows] if hasattr(X, "iloc") else X[rows]

    # Training ----------------------------------------------------------------------------------------------------------------

    def _problem(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Problem:
        check_arguments(self)
        rows = len(X)
        method = self._method(sizing.lr_for(rows))
        self.hidden_: tuple[int, ...] = (
            sizing.hidden_for(rows) if self.hidden is None else tuple(int(size) for size in self.hidden)
        )
        return Problem(
            x=X,
            y=y,
            weight=weight,
            hidden=self.hidden_,
            activation=self.activation,
            method=method,
            lr=None if self.lr is None else float(self.lr),
            batch_size=int(self.batch_size or sizing.batch_size_for(rows)),
            jobs=self._jobs(),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _steps(self, problem: Problem) -> int:
        rows = len(problem.x)
        return sizing.steps_for(rows) if self.epochs is None else int(self.epochs) * -(-rows // problem.batch_size)

    def _train(
        self, problem: Problem, kinds: Sequence[tuple[str, str]], folds: Sequence[Fold]
    ) -> list[tuple[Stack, Fold]]:
        """Search, then train the networks of the model; return those of the folds, which calibrate predictions."""
        steps, folds = self._steps(problem), list(folds)
        given = self._given(kinds[0][0])
        rungs = sizing.rungs_for(len(problem.x), int(self.budget), len(folds)) if folds else []
        held_out = folds[: sizing.folds_held_out(len(problem.x), len(folds))]
        judges = min(int(self.members), HELD_OUT_MEMBERS)
        work = sum(rung.settings * rung.folds * rung.share * steps for rung in rungs)
        work += steps * (len(held_out) * judges + int(self.members))
        progress = Reporter(self.verbose, work)
        settings = [Setting(*kinds[0], given)]
        self.search_: Search | None = None
        if folds:
            settings = random_settings(kinds, self._space(problem, kinds[0][0]), given, int(self.budget), problem.seed)
            self.search_ = search(problem, settings, rungs, folds, steps, progress)
        self.setting_ = setting = self.search_.best if self.search_ else settings[0]
        members = fold_members(problem, setting, None, steps, 0, int(self.members))
        for k, fold in enumerate(held_out):
            members += fold_members(problem, setting, fold, steps, k, judges)
        usual = float(problem.method(steps).settings["lr"])
        for lr in [problem.lr] if problem.lr is not None else [None, usual / 4, usual / 16]:
            tried = members if lr is None else [replace(member, lr=lr) for member in members]
            stack, diverged = trained(problem, tried, setting.likelihood, steps, progress, "networks of the model")
            diverged = diverged | wild(stack, tried)
            if not diverged.any():
                break
        progress.close()
        if diverged.any():
            raise ValueError(
                f"the training diverged with prior_precision={setting.numbers.get('prior_precision', 1.0):.3g}, "
                f"lr={problem.lr or usual}: give a smaller lr"
            )
        K = int(self.members)
        self.stack_ = stack[range(K)]
        self.n_steps_, self.n_updates_ = steps, 0
        self.prior_precision_ = setting.numbers.get("prior_precision")
        self.temperature_ = setting.numbers.get("temperature")
        self.earlier_ = self._as_earlier(problem)
        is_class = setting.likelihood in ("bernoulli", "categorical")
        self.limits_ = None if is_class else limits_of(problem.transformed(setting.transform)[1])
        floats = judges * int(self.predict_samples) * problem.outputs(setting.likelihood)
        most = max(ROWS_AT_ONCE, FLOATS_OF_HELD_OUT_ROWS // floats)
        every = -(-sum(len(out) for _, out in held_out) // most) or 1
        return [
            (stack[range(K + k * judges, K + (k + 1) * judges)], (rows, out[::every]))
            for k, (rows, out) in enumerate(held_out)
        ]

    def _as_earlier(self, problem: Problem) -> Earlier | None:
        """Return what new rows will be compared with; None if the weights have no posterior that could be their prior."""
        method = problem.method(100)
        if self.stack_.precision is None or not method.has_prior:
            return None
        numbers = self.setting_.numbers
        scaling = Scaling(*(values[0] for values in self.stack_.scaling))
        return Earlier.of(
            self.stack_,
            method,
            scaling.x(tensor(problem.x)),
            problem.weight,
            prior_precision=numbers["prior_precision"],
            temperature=numbers["temperature"],
        )

    def _go_on(self, X: Any, y: np.ndarray, sample_weight: Any) -> Self:
        """Continue training with new rows: the posterior of every member becomes its prior. Columns and scales stay."""
        check_is_fitted(self, "stack_")
        if self.earlier_ is None:
            raise ValueError(f"optimizer={self.optimizer!r} has no posterior that could be the next prior: use fit")
        X = self._checked(X, reset=False)
        check_consistent_length(X, y)
        X, y, weight = self._counted(X, y, sample_weight)
        scaling = Scaling(*(values[0] for values in self.stack_.scaling))
        if self.limits_ is not None and len(rows := rare_outliers(y, self.limits_)):
            X, y, weight = self._left_out(rows, X, y, weight)
        x = scaling.x(tensor(self._squeezed(self.encoder_.encode(X).values)))
        z = (
            tensor(y)
            if self.stack_.likelihood in ("bernoulli", "categorical")
            else scaling.y(tensor(y).reshape(len(y), -1))
        )
        steps = max(100, self.n_steps_ // 2)
        numbers = self.setting_.numbers
        update = Update.of(
            self._method(sizing.lr_for(len(y)) / 2)(steps),
            self.earlier_,
            rows=len(y),
            batch_size=int(self.batch_size or sizing.batch_size_for(len(y))),
            weight=weight,
            prior_precision=numbers["prior_precision"],
            temperature=numbers["temperature"],
        )
        members = [
            Member(
                x.numpy(),
                z.numpy(),
                weight=weight,
                earlier=update.prior(self.stack_, k),
                seed=seed + 7919 * (self.n_updates_ + 1),
                epochs=max(1, round(steps / -(-len(y) // update.batch_size))),
                lr=None if self.lr is None else float(self.lr),
                **{**numbers, **update.numbers},  # type: ignore[arg-type]
            )
            for k, seed in enumerate(self.stack_.seeds)
        ]
        result = train(
            members,
            self.stack_.network,
            update.method,
            likelihood=self.stack_.likelihood,
            batch_size=update.batch_size,
            standardise=False,
            schedule=cosine,
            jobs=self._jobs(),
        )
        if result.diverged.any() or result.stack is None:
            raise ValueError("the training diverged on the new rows: give a smaller lr")
        self.stack_ = update.result(result.stack, self.stack_, x, weight)
        self.n_updates_ += 1
        return self

    def _left_out(
        self, rows: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Return new rows without those whose targets are absurdly far from those of the fit, with a warning."""
        far = f"row {rows[0]} has a target that is more than {FAR_OUT:g} quartile distances away from those of the fit"
        if len(rows) == len(y):
            raise ValueError(f"{far}, and there is no other row: if it is right, fit all rows anew")
        warnings.warn(f"{far}, and is left out: if it is right, fit all rows anew", UserWarning, stacklevel=5)
        keep = np.delete(np.arange(len(y)), rows)
        X = X.iloc[keep] if hasattr(X, "iloc") else X[keep]
        return X, y[keep], None if weight is None else weight[keep]

    def _given(self, likelihood: str) -> dict[str, float]:
        """Return the numbers of a member as the arguments give them."""
        if self._method(1.0)(100).drops_out:
            return {"dropout": float(self.dropout)}
        return {"prior_precision": float(self.prior_precision), "temperature": float(self.temperature)}

    def _space(self, problem: Problem, likelihood: str) -> dict[str, tuple[float, float]]:
        """Return the bounds of the numbers to search."""
        method = problem.method(1000)
        if method.drops_out:
            return {"dropout": DROPOUT_RATES}
        if not method.has_prior:
            return {}
        start = method.settings.get("init_precision")
        bound = float(start) if method.starts_above_prior and isinstance(start, float | int) else math.inf
        low, high = PRIOR_PRECISIONS[0], min(PRIOR_PRECISIONS[1], bound)
        space = {"prior_precision": (min(low, high / 10), high)}
        coldest = max(TEMPERATURES[0], high / bound)
        if method.has_posterior and coldest < TEMPERATURES[1]:
            space["temperature"] = (coldest, TEMPERATURES[1])
        return space

    def _method(self, lr: float) -> Callable[[int], Method]:
        """Return the method as a function of the number of steps: Vadam's s averages over a quarter of them."""
        named = isinstance(self.optimizer, str)
        method = method_of(self.optimizer, int(self.samples))
        start = method.settings.get("init_precision")
        narrow = (
            method.starts_above_prior
            and isinstance(start, float | int)
            and self.prior_precision / self.temperature > start
        )
        if named and narrow and not self.tune:
            method = method.replace(init_precision="prior")
        if self.optimizer != "vadam":
            return lambda steps: method
        return lambda steps: method.replace(lr=lr, betas=(0.9, min(0.999, max(0.9, 1 - 4 / steps))))

    def _jobs(self) -> int:
        if self.n_jobs in (None, 1):
            return 1
        from joblib import effective_n_jobs

        return int(effective_n_jobs(self.n_jobs))

    # Results and files ------------------------------------------------------------------------------------------------------

    def _found(self) -> dict[str, Any]:
        """Return the arguments that give another fit the settings found by this one."""
        return {name: value for name, value in self.setting_.numbers.items() if hasattr(self, name)}

    def refit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Return a new estimator for these rows, with all that the tuning of this one has found, calibration included.

        What was found becomes its arguments, so that its clones keep it.
        """
        check_is_fitted(self, "stack_")
        found = {**self._found(), "hidden": self.hidden_, "tune": False}
        return clone(self).set_params(**found).fit(X, y, sample_weight=sample_weight)

    def _fitted_state(self) -> dict[str, Any]:
        """Return everything that a fit has learned besides the weights, as JSON types."""
        return {
            "encoder": self.encoder_.as_dict(),
            "centre": self.centre_.tolist(),
            "spread": self.spread_.tolist(),
            "setting": {"transform": self.setting_.transform, "numbers": self.setting_.numbers},
            "hidden": list(self.hidden_),
            "steps": self.n_steps_,
            "updates": self.n_updates_,
            "limits": None if self.limits_ is None else [np.atleast_1d(limit).tolist() for limit in self.limits_],
            "earlier": None if self.earlier_ is None else asdict(self.earlier_),
            "likelihood": self.stack_.likelihood,
        }

    def _restore_state(self, found: dict[str, Any]) -> None:
        """Restore the state that :meth:`_fitted_state` returned."""
        self.encoder_ = TableEncoder.from_dict(found["encoder"])
        self.centre_, self.spread_ = np.array(found["centre"], float), np.array(found["spread"], float)
        numbers = {str(name): float(value) for name, value in found["setting"]["numbers"].items()}
        self.setting_ = Setting(found["likelihood"], found["setting"]["transform"], numbers)
        self.hidden_, self.n_steps_ = tuple(map(int, found["hidden"])), int(found["steps"])
        self.n_updates_ = int(found["updates"])
        earlier, limits = found["earlier"], found["limits"]
        self.limits_ = None if limits is None else (np.array(limits[0], float), np.array(limits[1], float))
        self.earlier_ = None if earlier is None else Earlier(float(earlier["amount"]), float(earlier["mean_weight"]))
        self.prior_precision_, self.temperature_ = numbers.get("prior_precision"), numbers.get("temperature")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one safetensors file; :meth:`load` reads it."""
        check_is_fitted(self, "stack_")
        saving.save(path, self)

    @classmethod
    @on_cpu
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator that :meth:`save` wrote. Nothing is unpickled."""
        return saving.load(path, cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.non_deterministic = False
        return tags


def one_a_row(y: Any, rows: int) -> np.ndarray:
    """Return targets as a vector; raise ValueError if there is not one for each row."""
    y = column_or_1d(y)
    if len(y) != rows:
        raise ValueError(f"y has {len(y)} entries, but X has {rows} rows: give one for each row")
    return y


def tensor(values: Any) -> Tensor:
    """Return a float64 tensor."""
    return torch.from_numpy(np.array(values, dtype=np.float64))
