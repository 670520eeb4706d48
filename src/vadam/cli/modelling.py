"""Fit and evaluate a model on a table, and predict with a saved model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vadam import atomic
from vadam.cli import dataframe
from vadam.cli.errors import CommandError
from vadam.report.model import ClassificationEvaluation, Evaluation, RegressionEvaluation

if TYPE_CHECKING:
    import pandas as pd

MAX_CLASSES = 10
"""An integer target with at most this many different values is treated as classes."""


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator and its evaluation on held-out rows."""

    model: Any
    evaluation: Evaluation


def fit(
    path: Path, target: str, task: str, ignored: tuple[str, ...], holdout: float, options: dict[str, Any]
) -> Fitted:
    """Tune and evaluate on a part of the rows, then train on all rows with the tuned settings."""
    table = dataframe.read(path)
    y = dataframe.target_of(table, target)
    X = dataframe.features(table.drop(columns=[target, *_check_ignored(table, ignored)]))
    estimator = _estimator(_task(task, y), options)
    train, test = _split(len(X), holdout, options["random_state"])
    try:
        tuned = estimator.fit(X.iloc[train], y.iloc[train])
        evaluation = _evaluate(tuned, X.iloc[test], y.iloc[test], target, len(X))
        return Fitted(tuned.refit(X, y), evaluation)
    except ValueError as error:
        raise CommandError(f"{path.name} cannot be fitted: {error}") from error


def predict(model_path: Path, path: Path, level: float) -> "pd.DataFrame":
    """Predict the rows of a table with a saved model."""
    if not 0 < level < 1:
        raise CommandError(f"--level must be between 0 and 1, got {level}.")
    model = load(model_path)
    if not hasattr(model, "feature_names_in_"):
        raise CommandError(f"{model_path} was fitted without column names: fit it with vadam fit, or to a DataFrame.")
    table = dataframe.read(path)
    try:
        return _predictions(model, table, level)
    except ValueError as error:
        raise CommandError(f"{path.name} cannot be predicted: {error}") from error


def _predictions(model: Any, table: "pd.DataFrame", level: float) -> "pd.DataFrame":
    import pandas as pd

    X = dataframe.features_like(table, list(model.feature_names_in_))
    if hasattr(model, "classes_"):
        probabilities = model.predict_proba(X)
        columns = {"predicted": model.classes_[probabilities.argmax(1)]}
        columns |= {f"p_{label}": probabilities[:, k] for k, label in enumerate(model.classes_)}
        return pd.DataFrame(columns, index=table.index)
    mean, std = model.predict(X, return_std=True)
    low, high = model.predict_quantiles(X, ((1 - level) / 2, (1 + level) / 2)).T
    percent = f"{100 * level:g}"
    return pd.DataFrame({"mean": mean, "std": std, f"low_{percent}": low, f"high_{percent}": high}, index=table.index)


def load(path: Path) -> Any:
    """Load a model that ``vadam fit`` has written."""
    from vadam import persist
    from vadam.estimators import VadamClassifier, VadamRegressor

    if not path.is_file():
        raise CommandError(f"There is no model {path}: check the path.")
    try:
        classifies = persist.load(path).config.get("estimator") == VadamClassifier.__name__
        return (VadamClassifier if classifies else VadamRegressor).load(path)
    except ValueError as error:
        raise CommandError(f"{path} is not a model that vadam fit wrote: {error}") from error


def writer(out: Path) -> "Callable[[pd.DataFrame], None]":
    """Return a function that writes predictions to a .csv or .parquet file."""
    match out.suffix.lower():
        case ".csv":
            return lambda predictions: atomic.write_bytes(out, predictions.to_csv(index=False).encode())
        case ".parquet" | ".pq":
            return lambda predictions: atomic.write_bytes(out, predictions.to_parquet(index=False))
        case _:
            raise CommandError(f"--out must be a .csv or .parquet file, got {out}.")


def _estimator(task: str, options: dict[str, Any]) -> Any:
    from vadam.estimators import VadamClassifier, VadamRegressor

    kind = VadamRegressor if task == "regression" else VadamClassifier
    tuned = options["budget"] > 0
    return kind(**(options | {"tune": tuned, "budget": max(1, options["budget"])}))


def _task(task: str, y: "pd.Series") -> str:
    import pandas as pd

    if task in ("regression", "classification"):
        return task
    if task != "auto":
        raise CommandError(f"--task must be auto, regression or classification, got {task!r}.")
    numbers = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    few = y.nunique() <= MAX_CLASSES and bool((y == y.round()).all()) if numbers else True
    return "classification" if few else "regression"


def _split(rows: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if not 0 < holdout < 1:
        raise CommandError(f"--holdout must be between 0 and 1, got {holdout}.")
    order = np.random.default_rng(seed).permutation(rows)
    kept = round(holdout * rows)
    if not 1 <= kept <= rows - 2:
        raise CommandError(f"The table has {rows} rows, too few to hold out {holdout:.0%} of them: change --holdout.")
    return order[kept:], order[:kept]


def _evaluate(model: Any, X: "pd.DataFrame", y: "pd.Series", target: str, rows: int) -> Evaluation:
    if hasattr(model, "classes_"):
        seen = y.isin(model.classes_)
        return ClassificationEvaluation(
            target,
            rows,
            np.asarray(y[seen]),
            model.predict_proba(X[seen]),
            [str(c) for c in model.classes_],
            np.searchsorted(model.classes_, np.asarray(y[seen])),
        )
    mean, std = model.predict(X, return_std=True)
    levels = np.linspace(0.05, 0.95, 19)
    quantiles = model.predict_quantiles(X, tuple(levels))
    return RegressionEvaluation(
        target, rows, np.asarray(y, dtype=float), mean, std, levels, quantiles, model.log_likelihood(X, y)
    )


def _check_ignored(table: "pd.DataFrame", ignored: tuple[str, ...]) -> list[str]:
    missing = [name for name in ignored if name not in table]
    if missing:
        raise CommandError(f"--ignore names columns that the table does not have: {', '.join(missing)}.")
    return list(ignored)
