"""Load a model and predict the rows of a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.cli import dataframe, number_texts
from vadam.cli.errors import CommandError
from vadam.cli.phrases import counted, first_three
from vadam.cli.preparation import list_problems

if TYPE_CHECKING:
    import pandas as pd

    from vadam.estimators.encoding import Column


@dataclass(frozen=True)
class Predictions:
    """The predicted rows, and remarks about values that the model has never seen."""

    table: "pd.DataFrame"
    notes: list[str]


def predict(model_path: Path, path: Path, level: float, decimal: str | None = None) -> Predictions:
    """Return the predictions for a table, one row for each of its rows, beside the columns that the model does not use."""
    if not 0 < level < 1:
        raise CommandError(f"--level must be between 0 and 1, not {level}.")
    model = load(model_path)
    if not hasattr(model, "feature_names_in_"):
        raise CommandError(
            f"{model_path} was fitted without column names: fit it with vadam fit, or from Python to a DataFrame."
        )
    if (targets := model.held_out_pits_.shape[1] if hasattr(model, "held_out_pits_") else 1) > 1:
        raise CommandError(
            f"{model_path} predicts {targets} targets, but vadam predict writes one: use it from Python."
        )
    used = {column.name: column for column in model.encoder_.columns}
    table = dataframe.read(path, {name.strip(): column for name, column in used.items()}, decimal=decimal)
    table = table.rename(columns={name.strip(): name for name in model.feature_names_in_})
    if not len(table):
        raise CommandError(f"{path.name} has no rows: there is nothing to predict.")
    X, notes = _columns_of(model, table, path)
    try:
        predicted = _predictions(model, X, level)
    except ValueError as error:
        raise CommandError(f"{path.name} cannot be predicted: {error}") from error
    import pandas as pd

    if replaced := [name for name in table.columns if name not in used and name in predicted]:
        notes.append(f"Columns of the table that predictions of the same name replace: {', '.join(replaced)}.")
    kept = table[[name for name in table.columns if name not in used and name not in predicted]]
    return Predictions(pd.concat([kept, predicted], axis=1), notes)


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


def _columns_of(model: Any, table: "pd.DataFrame", path: Path) -> tuple["pd.DataFrame", list[str]]:
    """Return the model's columns of a table, and remarks; raise CommandError with all problems."""
    from vadam.estimators import cells

    problems, notes = [], list(table.attrs.get("notes", ()))
    columns = model.encoder_.columns
    dates = [column.name for column in columns if column.kind == "date" and column.name in table]
    read, notes_on_dates = model.encoder_.read(table[dates])
    for column in columns:
        if column.name not in table:
            problems.append(f"The model needs the column {column.name!r}, which this table does not have.")
            continue
        values = table[column.name]
        if column.kind == "number":
            notes += _notes_on_percentages(column, values)
            numbers = _numbers(column, values)
            if values.notna().any() and numbers.isna().all():
                problems.append(f"{path.name} cannot be predicted: the column {column.name!r} holds no numbers.")
                continue
            notes += number_texts.unread(column.name, values, numbers)
            values = numbers
            table = table.assign(**{column.name: numbers})
        if column.kind == "date" and values.notna().any() and read[column.name].isna().all():
            problems.append(f"{path.name} cannot be predicted: the column {column.name!r} holds no dates.")
            continue
        if (missing := int(values.isna().sum())) and not column.missing:
            notes.append(
                f"{column.name} is missing in {counted(missing, 'row')}, but never was in training: wider intervals there."
            )
    if problems:
        raise CommandError(list_problems(path, problems))
    table = table.assign(**{name: read[name] for name in dates})
    for name, values in model.encoder_.unseen_values(table).items():
        rows = sum(text in values for text in cells.texts(table[name]))
        notes.append(
            f"{name}: {first_three(values)} was never seen in training ({counted(rows, 'row')}): wider intervals there."
        )
    for name, (rows, low, high) in model.encoder_.outside(table).items():
        notes.append(
            f"{name} lies far outside of training's {low} to {high} in {counted(rows, 'row')}: "
            "the model has no experience there, and intervals may be too narrow."
        )
    return table.reindex(columns=list(model.feature_names_in_)), notes + notes_on_dates


def _notes_on_percentages(column: "Column", values: "pd.Series") -> list[str]:
    """Return a note on percentages of only one of training and table: a sheet has 0.12 where its text is "12 %"."""
    from vadam.estimators import cells

    found = cells.percentages(values)
    if column.percent and not found and values.notna().any():
        return [
            f"{column.name}: training had percentages, of which 12 % is read as 12: multiply by 100 if it is 0.12 here."
        ]
    if found and not column.percent:
        return [
            f"{column.name}: {found[0]!r} is read without its sign, but training had no percentages: check the unit."
        ]
    return []


def _numbers(column: "Column", values: "pd.Series") -> "pd.Series":
    """Return a column that the model knows as numbers: in the notation, 1,234.5 or 1.234,5, that reads more of its texts."""
    import pandas as pd

    from vadam.estimators.encoding import numbers_of

    plain = pd.Series(numbers_of(column, values), index=values.index)
    if pd.api.types.is_numeric_dtype(values):
        return plain
    european = number_texts.european_numbers(values)
    return european if european.notna().sum() > plain.notna().sum() else plain


def _predictions(model: Any, X: "pd.DataFrame", level: float) -> "pd.DataFrame":
    """Return the columns of a prediction, computed in blocks of rows so that a long table needs little memory."""
    import pandas as pd

    from vadam.estimators.base import ROWS_AT_ONCE

    columns_of = _class_columns if hasattr(model, "classes_") else _number_columns
    blocks = [X.iloc[first : first + ROWS_AT_ONCE] for first in range(0, len(X), ROWS_AT_ONCE)]
    found = pd.concat([columns_of(model, block, level) for block in blocks])
    if hasattr(model, "classes_"):
        return found
    decimals = _decimals(found["std"].to_numpy())
    return pd.DataFrame({name: _rounded(found[name].to_numpy(), decimals) for name in found}, index=X.index)


def _class_columns(model: Any, X: "pd.DataFrame", level: float) -> "pd.DataFrame":
    import pandas as pd

    probabilities = model.predict_proba(X)
    columns: dict[str, Any] = {"predicted": model.classes_[probabilities.argmax(1)]}
    columns |= {f"p_{label}": _significant(probabilities[:, k]) for k, label in enumerate(model.classes_)}
    columns["mutual_information"] = model.predict_distribution(X).mutual_information.numpy().round(4)
    return pd.DataFrame(columns, index=X.index)


def _number_columns(model: Any, X: "pd.DataFrame", level: float) -> "pd.DataFrame":
    import pandas as pd

    prediction = model.predict_distribution(X)
    low, high = model.predict_interval(X, level).T
    percent = f"{100 * level:g}"
    columns = {
        "mean": prediction.mean[:, 0].numpy(),
        "std": prediction.std[:, 0].numpy(),
        f"low_{percent}": low,
        f"high_{percent}": high,
        "epistemic": prediction.epistemic[:, 0].numpy(),
        "aleatoric": prediction.aleatoric[:, 0].numpy(),
    }
    return pd.DataFrame(columns, index=X.index)


def _significant(values: np.ndarray) -> np.ndarray:
    """Return probabilities with six significant digits: a rare class has a small one and not 0, whose logarithm is infinite."""
    return np.array([float(f"{value:.6g}") for value in values])


def _rounded(values: np.ndarray, decimals: int) -> np.ndarray:
    """Return rounded numbers; whole ones as integers, so that files show no ".0". A float with fewer digits stays as it is."""
    if np.abs(values).max(initial=0.0) * 10.0**decimals >= 2**53:
        return values if decimals else np.round(values)
    rounded = np.round(values, decimals)
    return rounded if decimals else rounded.astype(np.int64)


def _decimals(std: np.ndarray) -> int:
    """Return the decimals that matter: three digits of the smallest usual deviation."""
    usual = float(np.quantile(std[std > 0], 0.05)) if bool((std > 0).any()) else 1.0
    return int(np.clip(2 - np.floor(np.log10(usual)), 0, 300))
