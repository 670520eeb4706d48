"""Prepare a table for a fit: its columns, its target and the task, and all problems in one message."""

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.cli.errors import CommandError
from vadam.cli.gaps import LEADING_ZERO
from vadam.cli.phrases import counted

if TYPE_CHECKING:
    import pandas as pd

MAX_CLASSES = 10
"""A target of whole numbers with at most this many different values is a class label."""
MIN_ROWS = 10
LARGEST_TARGET = 1e100


@dataclass
class Prepared:
    """The columns and the target of a table, and what was done to them."""

    X: "pd.DataFrame"
    y: "pd.Series"
    task: str
    notes: list[str] = field(default_factory=list)


def prepare(
    table: "pd.DataFrame", target: str, task: str, ignored: tuple[str, ...], holdout: float, path: Path
) -> Prepared:
    """Return columns and target; raise one CommandError that names all problems of the call and the table."""
    problems, notes = [], list(table.attrs.get("notes", ()))
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
        if len(table.columns) and all(_is_number(name) for name in table.columns):
            hint = " Its first line holds numbers: write the names of the columns above it."
        problems.append(f"The table has no column {target!r}.{hint} Its columns: {', '.join(table.columns)}.")
        raise CommandError(list_problems(path, problems))
    y = table[target]
    missing = int(y.isna().sum())
    if missing:
        notes.append(f"Left out: {counted(missing, 'row')} without {target!r}.")
        table = table[y.notna()]
        y = table[target]
    given = y
    y, kind, unread = _target(y, task)
    if kind == "regression" and not _holds_numbers(given):
        from vadam.estimators import cells, encoding

        notes += encoding.note_on_units(target, [text for text in cells.texts(given) if text is not None])
    if unread:
        notes.append(f"Left out: {counted(unread, 'row')} whose {target!r} is not a number.")
        keep = y.notna()
        table, y = table[keep], y[keep]
    if len(table) < MIN_ROWS:
        problems.append(f"Rows with a target: {len(table)}. Give at least {MIN_ROWS} to learn from.")
    elif y.nunique() < 2:
        problems.append(f"The target {target!r} is always {y.iloc[0]}: there is nothing to learn.")
    elif kind == "regression" and not _holds_numbers(y):
        problems.append(f"The target {target!r} holds no numbers: give --task classification, or another --target.")
    elif kind == "regression" and (largest := y.abs().max()) > LARGEST_TARGET:
        problems.append(
            f"The target {target!r} holds {largest:.3g} in line {int(y.abs().idxmax()) + 2}, which is too large to compute "
            "with: correct it or remove the row, or use other units if all are so large."
        )
    elif kind == "classification" and y.nunique() > 0.5 * len(y):
        problems.append(
            f"The target {target!r} has {y.nunique()} different labels in {len(y)} rows: an id or free text? "
            "Give another --target, or --task regression if these are numbers."
        )
    X = table.drop(columns=[target, *(name for name in ignored if name in table)])
    X, infinite = _without_infinities(X)
    notes += infinite
    if not X.shape[1]:
        problems.append("The table has no feature columns besides the target.")
    elif len(table):
        try:
            _encoder(X)
        except ValueError as error:
            problems.append(f"{error}.")
    if problems:
        raise CommandError(list_problems(path, problems))
    notes += _odd_targets(y, target) if kind == "regression" else _alike_labels(y, target)
    return Prepared(X, _labels(y) if kind == "classification" else y, kind, notes)


def _without_infinities(X: "pd.DataFrame") -> tuple["pd.DataFrame", list[str]]:
    """Return the columns with gaps in the place of infinite numbers, and notes on these."""
    from vadam.estimators import cells

    found = {name: cells.infinite(X[name]) for name in X}
    found = {name: rows for name, rows in found.items() if rows.any()}
    notes = [
        f"{name}: infinite in {counted(int(rows.sum()), 'row')}, which count as missing" for name, rows in found.items()
    ]
    return X.assign(**{name: X[name].mask(rows) for name, rows in found.items()}), notes


def _odd_targets(y: "pd.Series", target: str) -> list[str]:
    """Return a note on targets that are far from all others."""
    from vadam.estimators.encoding import note_on_stand_ins
    from vadam.estimators.search import without_outliers

    values = y.to_numpy(dtype=float)
    if notes := note_on_stand_ins(target, values):
        return notes
    lines = [int(y.index[k]) + 2 for k in np.flatnonzero(without_outliers(values) != values)]
    if not lines:
        return []
    shown = ", ".join(map(str, lines[:3])) + (", …" if len(lines) > 3 else "")
    return [f"{target!r} is far from all other values in line {shown}: check it."]


def _alike_labels(y: "pd.Series", target: str) -> list[str]:
    """Return notes on classes that are the same but for upper and lower case."""
    from vadam.estimators.encoding import differ_in_case

    return [
        f"{target}: {', '.join(map(repr, alike))} are different classes; write them alike if they mean the same"
        for alike in differ_in_case(sorted(set(y.astype(str))))
    ]


def _holds_numbers(y: "pd.Series") -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(y))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def list_problems(path: Path, problems: list[str]) -> str:
    """Return one message for all problems of a table."""
    if len(problems) == 1:
        return problems[0]
    return f"{path.name} has {len(problems)} problems:\n" + "\n".join(f"- {problem}" for problem in problems)


def _encoder(X: "pd.DataFrame") -> Any:
    from vadam.estimators.encoding import TableEncoder

    return TableEncoder().fit(X)


def _target(y: "pd.Series", task: str) -> tuple["pd.Series", str, int]:
    """Return the target as numbers or labels, the task, and how many values cannot be read as numbers."""
    import pandas as pd

    from vadam.estimators import cells
    from vadam.estimators.encoding import ENOUGH

    if y.dtype == object and len(y) and all(isinstance(value, bool) for value in y):
        y = y.astype(bool)  # beside gaps, which are left out
    numeric = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    if not numeric and not pd.api.types.is_bool_dtype(y) and task != "classification":
        numbers = pd.Series(cells.floats(y), index=y.index)
        readable = int(numbers.notna().sum())
        kind = infer_task(task, numbers.dropna())
        of_codes = kind == "classification" and y.astype(str).str.strip().str.fullmatch(LEADING_ZERO).any()
        if len(y) and not of_codes and (readable >= ENOUGH * len(y) or (task == "regression" and readable)):
            return numbers, kind, len(y) - readable
    kind = infer_task(task, y)
    if kind == "classification" and not numeric and not pd.api.types.is_bool_dtype(y):
        y = y.astype(str).str.strip()
    return y, kind, 0


def _labels(y: "pd.Series") -> "pd.Series":
    """Return truth values and whole numbers as what they are: beside gaps, which are left out, pandas keeps them as 1.0."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(y):
        return y.astype(bool)
    whole = pd.api.types.is_numeric_dtype(y) and bool((y == y.round()).all()) and bool((y.abs() < 2**53).all())
    return y.astype("int64") if whole else y


def infer_task(task: str, y: "pd.Series") -> str:
    """Return "regression" or "classification"; the task "auto" is decided by the values of the target."""
    import pandas as pd

    if task in ("regression", "classification"):
        return task
    numbers = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    few = y.nunique() <= MAX_CLASSES and bool((y == y.round()).all()) if numbers else True
    return "classification" if few else "regression"
