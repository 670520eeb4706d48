"""Fit a model to a table: tune and evaluate on part of the rows, then train on all of them."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vadam.cli import dataframe
from vadam.cli.errors import CommandError
from vadam.cli.evaluation import (
    baseline_scores,
    chosen_settings,
    column_importance,
    describe_column,
    evaluate,
    least_certain_rows,
    linear_model_is_better,
    no_better_than_guessing,
    with_known_classes,
)
from vadam.cli.preparation import prepare
from vadam.report.model import Evaluation, ModelFacts

ROWS_FOR_ALL_CORES = 5_000
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Fitted:
    """A model fitted to all rows, and its evaluation on rows that were held out before."""

    model: Any
    evaluation: Evaluation
    facts: ModelFacts


@contextmanager
def without_warnings_of_columns() -> Iterator[None]:
    """Silence the estimators' warnings of columns inside the block: the answer and the page have these notes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "column ", UserWarning)
        yield


@without_warnings_of_columns()
def fit(
    path: Path,
    target: str,
    task: str,
    ignored: tuple[str, ...],
    holdout: float,
    options: dict[str, Any],
    progress: Progress | None = None,
    decimal: str | None = None,
) -> Fitted:
    """Tune and evaluate on part of the rows, then train on all rows with the settings found."""
    started = time.monotonic()
    target, ignored = target.strip(), tuple(name.strip() for name in ignored)  # as the names of columns are read
    prepared = prepare(dataframe.read(path, target=target, decimal=decimal), target, task, ignored, holdout, path)
    X, y = prepared.X, prepared.y
    train, test = _split(len(X), holdout, options["random_state"])
    if prepared.task == "regression":
        train, test = _with_a_logarithm(y.to_numpy(dtype=float), train, test)
    else:
        train, test = _with_two_classes(y.to_numpy(), train, test)
    estimator = _estimator(prepared.task, {**options, "n_jobs": -1 if len(X) >= ROWS_FOR_ALL_CORES else 1}, progress)
    try:
        judged = estimator.fit(X.iloc[train], y.iloc[train])
        X_test, y_test, on_classes = with_known_classes(judged, X.iloc[test], y.iloc[test])
        evaluation = evaluate(judged, X_test, y_test, target, len(X))
        importance = column_importance(judged, X_test, y_test)
        uncertain = least_certain_rows(judged, X_test, y_test)
        final = judged.refit(X, y)
    except ValueError as error:
        raise CommandError(f"{path.name} cannot be fitted: {error}") from error
    encoder = final.encoder_
    baselines = baseline_scores(judged, X.iloc[train], y.iloc[train], X_test, y_test)
    facts = ModelFacts(
        notes=[
            *prepared.notes,
            *encoder.notes,
            *on_classes,
            *no_better_than_guessing(evaluation),
            *linear_model_is_better(evaluation, baselines),
        ],
        columns={column.name: describe_column(column) for column in encoder.columns},
        left_out=dict(encoder.left_out),
        baselines=baselines,
        settings=chosen_settings(judged),
        tuned=judged.search_ is not None,
        importance=importance,
        uncertain=uncertain,
        seconds=time.monotonic() - started,
    )
    return Fitted(final, evaluation, facts)


def _estimator(task: str, options: dict[str, Any], progress: Progress | None) -> Any:
    from vadam.estimators import VadamClassifier, VadamRegressor

    kind = VadamRegressor if task == "regression" else VadamClassifier
    tuned = options["budget"] > 0
    return kind(**(options | {"tune": tuned, "budget": max(1, options["budget"]), "verbose": progress or False}))


def _with_a_logarithm(y: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of a split, with the least target in training if it has no logarithm that the model might choose."""
    least = int(np.argmin(y))
    if y[least] > 0 or y[train].min() <= 0:
        return train, test
    return np.append(train[1:], least), np.append(test[test != least], train[0])


def _with_two_classes(y: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of a split, with a row of another class in training if all of them are held out."""
    other = test[y[test] != y[train[0]]]
    if (y[train] != y[train[0]]).any() or not len(other):
        return train, test
    return np.append(train[1:], other[0]), np.append(test[test != other[0]], train[0])


def _split(rows: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(rows)
    kept = round(holdout * rows)
    if not 1 <= kept <= rows - 2:
        raise CommandError(
            f"The table has {rows} rows, and {holdout:.0%} of them are {kept}: at least 1 must be held out and 2 be left. "
            "Give another --holdout, or more rows."
        )
    return order[kept:], order[:kept]
