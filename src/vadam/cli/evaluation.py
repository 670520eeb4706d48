"""Judge a fitted model on rows that were held out: scores, importance of columns, uncertain rows, baselines."""

from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.cli.phrases import counted, first_three
from vadam.report.model import ClassificationEvaluation, Evaluation, RegressionEvaluation

if TYPE_CHECKING:
    import pandas as pd

IMPORTANCE_ROWS, IMPORTANCE_COLUMNS, IMPORTANCE_SAMPLES = 300, 30, 20
UNCERTAIN_ROWS = 8
SHOWN_CATEGORIES, SHOWN_CHARACTERS = 8, 30
LEAST_R2 = 0.01


def with_known_classes(model: Any, X: "pd.DataFrame", y: "pd.Series") -> tuple["pd.DataFrame", "pd.Series", list[str]]:
    """Return the held-out rows whose classes the model has seen, on which it and its baselines are judged, and a note on the others."""
    if not hasattr(model, "classes_") or (seen := y.isin(model.classes_)).all():
        return X, y, []
    if not seen.any():
        raise ValueError("no held-out row has a class of the training rows: give a larger --holdout, or more rows")
    odd = first_three(sorted({str(label) for label in y[~seen]}))
    note = (
        f"{y.name}: all rows of {odd} were held out, where no model can predict them: the evaluation leaves out "
        f"{counted(int((~seen).sum()), 'row')}."
    )
    return X[seen], y[seen], [note]


def evaluate(model: Any, X: "pd.DataFrame", y: "pd.Series", target: str, rows: int) -> Evaluation:
    """Evaluate a fitted model on held-out rows, whose classes it has seen."""
    if hasattr(model, "classes_"):
        return ClassificationEvaluation(
            target,
            rows,
            np.asarray(y),
            model.predict_proba(X),
            [str(c) for c in model.classes_],
            np.searchsorted(model.classes_, np.asarray(y)),
        )
    mean, std = model.predict(X, return_std=True)
    levels = np.linspace(0.05, 0.95, 19)
    quantiles = model.predict_quantiles(X, tuple(levels))
    quantiles[:, [0, -1]] = model.predict_interval(X, 0.9)
    return RegressionEvaluation(
        target, rows, np.asarray(y, dtype=float), mean, std, levels, quantiles, model.log_likelihood(X, y)
    )


def column_importance(model: Any, X: "pd.DataFrame", y: "pd.Series") -> dict[str, float]:
    """Return how much the log-likelihood of held-out rows falls when a column is shuffled."""
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


def least_certain_rows(model: Any, X: "pd.DataFrame", y: "pd.Series") -> list[dict[str, Any]]:
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


def baseline_scores(
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


def no_better_than_guessing(evaluation: Evaluation) -> list[str]:
    """Return a note if the columns did not help to predict the held-out rows, which tell nothing where all are alike."""
    if (np.asarray(evaluation.actual) == evaluation.actual[0]).all():
        return []
    if isinstance(evaluation, RegressionEvaluation):
        hopeless, guess = evaluation.summary()["r2"] < LEAST_R2, "the mean"
    else:
        assert isinstance(evaluation, ClassificationEvaluation)
        counts = np.bincount(evaluation.numbers)
        shares = counts[counts > 0] / counts.sum()
        hopeless, guess = (
            evaluation.summary()["log_likelihood"] < (shares * np.log(shares)).sum(),
            "the classes' shares",
        )
    found = (
        f"On held-out rows the model is no better than {guess}: these columns say little about {evaluation.target!r}."
    )
    return [found] if hopeless else []


def linear_model_is_better(evaluation: Evaluation, baselines: dict[str, float]) -> list[str]:
    """Return a note if a linear model made smaller or fewer errors on the held-out rows."""
    summary = evaluation.summary()
    if summary["task"] == "regression":
        simple, better = "a linear model", "a smaller error"
        found = baselines["rmse_of_a_linear_model"] < summary["rmse"]
    else:
        simple, better = "logistic regression", "a higher accuracy"
        found = baselines["accuracy_of_logistic_regression"] > summary["accuracy"]
    return [f"On the held-out rows {simple} has {better}: compare the two before you use this one."] if found else []


def chosen_settings(model: Any) -> dict[str, str]:
    """Return the settings that the search chose, in words."""
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


def describe_column(column: Any) -> str:
    """Return the kind of a column in words, for the report."""
    gaps = ", some missing" if column.missing else ""
    if column.kind == "category":
        shown = [shorten(category, SHOWN_CHARACTERS, placeholder="…") for category in column.categories]
        rest = ", …" if len(shown) > SHOWN_CATEGORIES else ""
        return f"{len(shown)} categories: {', '.join(shown[:SHOWN_CATEGORIES])}{rest}{gaps}"
    return f"{column.kind}{gaps}"
