"""Tell gaps from values: the words for gaps, and the categories and classes that are spelled like gaps or numbers."""

from typing import TYPE_CHECKING

from vadam.cli.number_texts import MISSING, is_number
from vadam.cli.phrases import first_three

if TYPE_CHECKING:
    import pandas as pd

    from vadam.estimators.encoding import Column

LEADING_ZERO = r"0\d+"
"""Texts of digits such as "007": classes, if they are few."""
MOST_LABELS = 10
"""Largest number of different words in a target, beside which "none" is one more."""


def with_gaps(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table without the words for gaps, which may stand between white space."""
    for name in table.select_dtypes(include=["object", "string", "category"]):
        gaps = [isinstance(cell, str) and cell.strip() in MISSING for cell in table[name]]
        table[name] = table[name].mask(gaps) if any(gaps) else table[name]
    return table


def with_categories(column: "pd.Series", texts: "pd.Series", known: "Column") -> "pd.Series":
    """Return a column with the texts that are categories of a model, where they were read as gaps, numbers or truth values."""
    cells = texts.str.strip().astype(object)
    found = cells.isin(known.categories)
    return cells.where(found, column.astype(object)) if found.any() else column


def with_classes(column: "pd.Series", texts: "pd.Series") -> tuple["pd.Series", list[str]]:
    """Return a target with the texts that are classes, where they were read as gaps or numbers, and a note on these."""
    labels, texts = _labels_like_gaps(column), texts.str.strip()
    gaps = texts.isin(MISSING)
    if texts[~gaps].str.fullmatch(LEADING_ZERO).any() and texts[~gaps].str.fullmatch(r"\d+").all():
        column = texts.where(~gaps)
    found = texts.isin(labels)
    if not found.any():
        return column, []
    shown = first_three(sorted(set(texts[found])))
    note = f"{column.name}: {shown} is read as a class; leave these cells empty if they are gaps."
    return column.astype(object).where(~found, texts.astype(object)), [note]


def _labels_like_gaps(column: "pd.Series") -> list[str]:
    """Return the words for gaps that are labels in a column with these others: "none" beside words, and "-" beside "+"."""
    known = {str(value).strip() for value in column.dropna()}
    words = not any(is_number(text) for text in known) and bool(known)
    return [*(("none", "None") if words and len(known) <= MOST_LABELS else ()), *(("-", "–") if known == {"+"} else ())]
