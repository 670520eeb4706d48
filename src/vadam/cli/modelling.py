"""Fit a model to a table and evaluate it; predict the rows of a table."""

import difflib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.cli import dataframe
from vadam.cli.errors import CommandError
from vadam.report.model import ClassificationEvaluation, Evaluation, ModelFacts, RegressionEvaluation

if TYPE_CHECKING:
    import pandas as pd

MAX_CLASSES = 10
"""A target of whole numbers with at most this many different values is a class label."""
MIN_ROWS = 10
IMPORTANCE_ROWS, IMPORTANCE_COLUMNS, IMPORTANCE_SAMPLES = 300, 30, 20
UNCERTAIN_ROWS = 8
ROWS_FOR_ALL_CORES = 5_000

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Fitted:
    """A model fitted to all rows, and its evaluation on rows that were held out before."""

    model: Any
    evaluation: Evaluation
    facts: ModelFacts


@dataclass
class Prepared:
    """The columns and the target of a table, and what was done to them."""

    X: "pd.DataFrame"
    y: "pd.Series"
    task: str
    notes: list[str] = field(default_factory=list)


def fit(
    path: Path,
    target: str,
    task: str,
    ignored: tuple[str, ...],
    holdout: float,
    options: dict[str, Any],
    progress: Progress | None = None,
) -> Fitted:
    """Tune and evaluate on part of the rows, then train on all rows with the settings found."""
    started = time.monotonic()
    prepared = prepare(dataframe.read(path), target, task, ignored, holdout, path)
    X, y = prepared.X, prepared.y
    train, test = _split(len(X), holdout, options["random_state"])
    estimator = _estimator(prepared.task, {**options, "n_jobs": -1 if len(X) >= ROWS_FOR_ALL_CORES else 1}, progress)
    try:
        judged = estimator.fit(X.iloc[train], y.iloc[train])
        evaluation = _evaluate(judged, X.iloc[test], y.iloc[test], target, len(X))
        importance = _importance(judged, X.iloc[test], y.iloc[test])
        uncertain = _uncertain(judged, X.iloc[test], y.iloc[test])
        final = judged.refit(X, y)
    except ValueError as error:
        raise CommandError(f"{path.name} cannot be fitted: {error}") from error
    encoder = final.encoder_
    facts = ModelFacts(
        notes=[*prepared.notes, *encoder.notes],
        columns={column.name: _described(column) for column in encoder.columns},
        left_out=dict(encoder.left_out),
        baselines=_baselines(judged, X.iloc[train], y.iloc[train], X.iloc[test], y.iloc[test]),
        settings=_settings(judged),
        importance=importance,
        uncertain=uncertain,
        seconds=time.monotonic() - started,
    )
    return Fitted(final, evaluation, facts)


def prepare(
    table: "pd.DataFrame", target: str, task: str, ignored: tuple[str, ...], holdout: float, path: Path
) -> Prepared:
    """Return columns and target; raise one CommandError that names all problems of the call and the table."""
    problems, notes = [], []
    if task not in ("auto", "regression", "classification"):
        problems.append(f"--task must be auto, regression or classification, not {task!r}.")
    if not 0 < holdout < 1:
        problems.append(f"--holdout must be between 0 and 1, not {holdout}.")
    if unknown := [name for name in ignored if name not in table]:
        problems.append(f"--ignore names columns that the table does not have: {', '.join(unknown)}.")
    if target not in table:
        by_lower = {name.lower(): name for name in table.columns}
        near = difflib.get_close_matches(target.lower(), list(by_lower), n=1, cutoff=0.5)
        hint = f" Did you mean {by_lower[near[0]]!r}?" if near else ""
        problems.append(f"The table has no column {target!r}.{hint} Its columns: {', '.join(table.columns)}.")
        raise CommandError(_listed(path, problems))
    y = table[target]
    missing = int(y.isna().sum())
    if missing:
        notes.append(f"{missing} rows without {target!r} are left out.")
        table = table[y.notna()]
        y = table[target]
    y, kind, unread = _target(y, task)
    if unread:
        notes.append(f"{unread} rows whose {target!r} is not a number are left out.")
        keep = y.notna()
        table, y = table[keep], y[keep]
    if len(table) < MIN_ROWS:
        problems.append(f"{len(table)} rows with a target are too few to learn from: give at least {MIN_ROWS}.")
    elif y.nunique() < 2:
        problems.append(f"The target {target!r} is always {y.iloc[0]}: there is nothing to learn.")
    elif kind == "classification" and y.nunique() > 0.5 * len(y):
        problems.append(
            f"The target {target!r} has {y.nunique()} different labels in {len(y)} rows: an id or free text? "
            "Give another --target, or --task regression if these are numbers."
        )
    X = table.drop(columns=[target, *(name for name in ignored if name in table)])
    if not X.shape[1]:
        problems.append("The table has no feature columns besides the target.")
    elif len(table):
        try:
            _encoder(X)
        except ValueError as error:
            problems.append(f"{error}.")
    if problems:
        raise CommandError(_listed(path, problems))
    return Prepared(X, y, kind, notes)


def _listed(path: Path, problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{path.name} has {len(problems)} problems:\n" + "\n".join(f"- {problem}" for problem in problems)


def _encoder(X: "pd.DataFrame") -> Any:
    from vadam.estimators.encoding import TableEncoder

    return TableEncoder().fit(X)


def _target(y: "pd.Series", task: str) -> tuple["pd.Series", str, int]:
    """Return the target as numbers or labels, the task, and how many values cannot be read as numbers."""
    import pandas as pd

    from vadam.estimators.encoding import ENOUGH, _floats

    numeric = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    if not numeric and not pd.api.types.is_bool_dtype(y) and task != "classification":
        numbers = pd.Series(_floats(y), index=y.index)
        readable = int(numbers.notna().sum())
        if len(y) and (readable >= ENOUGH * len(y) or (task == "regression" and readable)):
            return numbers, _task(task, numbers.dropna()), len(y) - readable
    kind = _task(task, y)
    if kind == "classification" and not numeric and not pd.api.types.is_bool_dtype(y):
        y = y.astype(str).str.strip()
    return y, kind, 0


def _task(task: str, y: "pd.Series") -> str:
    import pandas as pd

    if task in ("regression", "classification"):
        return task
    numbers = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    few = y.nunique() <= MAX_CLASSES and bool((y == y.round()).all()) if numbers else True
    return "classification" if few else "regression"


@dataclass(frozen=True)
class Predictions:
    """The predicted rows, and remarks about values that the model has never seen."""

    table: "pd.DataFrame"
    notes: list[str]


def predict(model_path: Path, path: Path, level: float) -> Predictions:
    """Return the predictions for a table, one row for each of its rows, beside the columns that the model does not use."""
    if not 0 < level < 1:
        raise CommandError(f"--level must be between 0 and 1, not {level}.")
    model = load(model_path)
    if not hasattr(model, "feature_names_in_"):
        raise CommandError(
            f"{model_path} was fitted without column names: fit it with vadam fit, or from Python to a DataFrame."
        )
    table = dataframe.read(path)
    X, notes = _columns_of(model, table, path)
    used = {column.name for column in model.encoder_.columns}
    try:
        predicted = _predictions(model, X, level)
    except ValueError as error:
        raise CommandError(f"{path.name} cannot be predicted: {error}") from error
    import pandas as pd

    kept = table[[name for name in table.columns if name not in used and name not in predicted]]
    return Predictions(pd.concat([kept, predicted], axis=1), notes)


def _columns_of(model: Any, table: "pd.DataFrame", path: Path) -> tuple["pd.DataFrame", list[str]]:
    """Return the model's columns of a table, and remarks; raise CommandError with all problems."""
    from vadam.estimators.encoding import _floats

    problems, notes = [], []
    columns = model.encoder_.columns
    for column in columns:
        if column.name not in table:
            problems.append(f"The model needs the column {column.name!r}, which this table does not have.")
            continue
        values = table[column.name]
        if column.kind == "number":
            known, unread = int(values.notna().sum()), ~np.isfinite(_floats(values))
            if known and unread.all():
                problems.append(f"{path.name} cannot be predicted: the column {column.name!r} holds no numbers.")
            elif unread.any() and not column.missing:
                notes.append(
                    f"{column.name} is missing in {int(unread.sum())} rows, and never was in training: their intervals are wider."
                )
    if problems:
        raise CommandError(_listed(path, problems))
    for name, values in model.encoder_.unseen_values(table).items():
        shown = ", ".join(map(repr, values[:3])) + (", …" if len(values) > 3 else "")
        rows = int(table[name].astype(str).str.strip().isin(values).sum())
        notes.append(f"{name}: {shown} was never seen in training ({rows} rows): their intervals are wider.")
    return table.reindex(columns=list(model.feature_names_in_)), notes


def _predictions(model: Any, X: "pd.DataFrame", level: float) -> "pd.DataFrame":
    import pandas as pd

    if hasattr(model, "classes_"):
        prediction = model.predict_distribution(X)
        probabilities = model.predict_proba(X)
        columns: dict[str, Any] = {"predicted": model.classes_[probabilities.argmax(1)]}
        columns |= {f"p_{label}": probabilities[:, k].round(4) for k, label in enumerate(model.classes_)}
        columns["mutual_information"] = prediction.mutual_information.numpy().round(4)
        return pd.DataFrame(columns, index=X.index)
    prediction = model.predict_distribution(X)
    low, high = model.predict_interval(X, level).T
    percent = f"{100 * level:g}"
    values = {
        "mean": prediction.mean[:, 0].numpy(),
        "std": prediction.std[:, 0].numpy(),
        f"low_{percent}": low,
        f"high_{percent}": high,
        "epistemic": prediction.epistemic[:, 0].numpy(),
        "aleatoric": prediction.aleatoric[:, 0].numpy(),
    }
    decimals = _decimals(values["std"])
    return pd.DataFrame({name: np.round(value, decimals) for name, value in values.items()}, index=X.index)


def _decimals(std: np.ndarray) -> int:
    """Return the decimals that matter: three digits of the smallest usual deviation."""
    usual = float(np.quantile(std[std > 0], 0.05)) if bool((std > 0).any()) else 1.0
    return int(np.clip(2 - np.floor(np.log10(usual)), 0, 12))


def load(path: Path) -> Any:
    """Load a model that ``vadam fit`` wrote."""
    from vadam import persist
    from vadam.estimators import VadamClassifier, VadamRegressor

    if not path.is_file():
        raise CommandError(f"There is no model {path}: check the path.")
    try:
        is_classifier = persist.load(path).config.get("estimator") == VadamClassifier.__name__
        return (VadamClassifier if is_classifier else VadamRegressor).load(path)
    except ValueError as error:
        raise CommandError(f"{path} is not a model that vadam fit wrote: {error}") from error


def _estimator(task: str, options: dict[str, Any], progress: Progress | None) -> Any:
    from vadam.estimators import VadamClassifier, VadamRegressor

    kind = VadamRegressor if task == "regression" else VadamClassifier
    tuned = options["budget"] > 0
    return kind(**(options | {"tune": tuned, "budget": max(1, options["budget"]), "verbose": progress or False}))


def _split(rows: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(rows)
    kept = round(holdout * rows)
    if not 1 <= kept <= rows - 2:
        raise CommandError(f"The table has {rows} rows, too few to hold out {holdout:.0%} of them.")
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
    quantiles[:, [0, -1]] = model.predict_interval(X, 0.9)
    return RegressionEvaluation(
        target, rows, np.asarray(y, dtype=float), mean, std, levels, quantiles, model.log_likelihood(X, y)
    )


def _importance(model: Any, X: "pd.DataFrame", y: "pd.Series") -> dict[str, float]:
    """Return how much the log-likelihood of held-out rows falls when a column is shuffled."""
    if hasattr(model, "classes_"):
        seen = y.isin(model.classes_)
        X, y = X[seen], y[seen]
    rng, samples = np.random.default_rng(0), model.predict_samples
    rows = rng.permutation(len(X))[:IMPORTANCE_ROWS]
    X, y = X.iloc[rows], y.iloc[rows]
    model.predict_samples = IMPORTANCE_SAMPLES
    try:
        base = model.log_likelihood(X, y)
        found = {}
        for column in model.encoder_.columns[:IMPORTANCE_COLUMNS]:
            shuffled = X.copy()
            shuffled[column.name] = X[column.name].to_numpy()[rng.permutation(len(X))]
            found[column.name] = base - model.log_likelihood(shuffled, y)
    finally:
        model.predict_samples = samples
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _uncertain(model: Any, X: "pd.DataFrame", y: "pd.Series") -> list[dict[str, Any]]:
    """Return the held-out rows that the model is least sure of: the row of the file, actual and predicted."""
    prediction = model.predict_distribution(X)
    if hasattr(model, "classes_"):
        order = np.argsort(-prediction.entropy.numpy().reshape(-1))[:UNCERTAIN_ROWS]
        labels, sure = model.predict(X), model.predict_proba(X).max(1)
        return [
            {
                "row": int(X.index[i]) + 2,
                "actual": str(y.iloc[i]),
                "predicted": str(labels[i]),
                "probability": float(sure[i]),
            }
            for i in order
        ]
    std = prediction.std[:, 0].numpy()
    ends, order = model.predict_interval(X, 0.9), np.argsort(-std)[:UNCERTAIN_ROWS]
    mean = prediction.mean[:, 0].numpy()
    return [
        {
            "row": int(X.index[i]) + 2,
            "actual": float(y.iloc[i]),
            "predicted": float(mean[i]),
            "low": float(ends[i, 0]),
            "high": float(ends[i, 1]),
        }
        for i in order
    ]


def _baselines(
    model: Any, X: "pd.DataFrame", y: "pd.Series", X_test: "pd.DataFrame", y_test: "pd.Series"
) -> dict[str, float]:
    """Return the error of the simplest answers on the held-out rows: the mean and a straight line, or the commonest class."""
    if hasattr(model, "classes_"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        numbers = [model._squeezed(model.encoder_.encode(part).values) for part in (X, X_test)]
        line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(numbers[0], y)
        return {
            "accuracy_of_the_commonest_class": float((y_test == y.mode().iloc[0]).mean()),
            "accuracy_of_logistic_regression": float((line.predict(numbers[1]) == np.asarray(y_test)).mean()),
        }
    from sklearn.linear_model import Ridge

    numbers = [model._squeezed(model.encoder_.encode(part).values) for part in (X, X_test)]
    line = Ridge().fit(numbers[0], y)
    truth = np.asarray(y_test, dtype=float)
    return {
        "rmse_of_the_mean": float(np.sqrt(np.mean((truth - float(y.mean())) ** 2))),
        "rmse_of_a_linear_model": float(np.sqrt(np.mean((truth - line.predict(numbers[1])) ** 2))),
    }


def _settings(model: Any) -> dict[str, str]:
    """Return what was chosen, in words."""
    numbers = model.setting_.numbers
    found = {name.replace("_", " "): f"{value:.3g}" for name, value in numbers.items() if value is not None}
    if hasattr(model, "noise_"):
        noise = model.predictive_noise_
        found["noise"] = "depends on the input" if model.noise_ == "input" else "the same everywhere"
        found["tails of the noise"] = (
            "Gaussian" if np.isinf(noise.dof) else f"Student's t, {noise.dof:g} degrees of freedom"
        )
        found["transform of the target"] = model.transform_.kind if model.transform_ else "none"
    tried = 0 if model.search_ is None else len({id(trial.setting) for trial in model.search_.trials})
    return {**found, "settings tried": str(tried), "posteriors in the mixture": str(len(model.stack_))}


def _described(column: Any) -> str:
    if column.kind == "category":
        return f"{len(column.categories)} categories"
    gaps = ", some missing" if column.missing else ""
    return f"{column.kind}{gaps}"
