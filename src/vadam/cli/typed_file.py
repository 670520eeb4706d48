"""Read tables whose cells have types: sheets of .xlsx files, and .parquet files."""

import csv
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vadam.cli.gaps import with_categories, with_classes, with_gaps
from vadam.cli.number_texts import MISSING, european_numbers, is_european, of_known_size, unread, with_percents
from vadam.cli.text_file import LINES_OF_A_TITLE, title_note

if TYPE_CHECKING:
    import pandas as pd

    from vadam.estimators.encoding import Column

UNREADABLE = (
    *(ValueError, OSError, LookupError, RuntimeError, MemoryError, csv.Error),
    *(zipfile.BadZipFile, zlib.error, EOFError, SyntaxError, TypeError, AttributeError),  # of damaged sheets
)


def read_sheet(
    path: Path, used: "Mapping[str, Column] | None", target: str | None, decimal: str | None
) -> "pd.DataFrame":
    """Read the first sheet of a workbook, and say so if there are several; see ``read`` for the other arguments."""
    import pandas as pd

    with pd.ExcelFile(path) as book:
        first, *others = book.sheet_names
        title_lines = _title_lines(pd.read_excel(book, sheet_name=first, header=None, nrows=LINES_OF_A_TITLE))
        options: dict[str, Any] = {"sheet_name": first, "header": title_lines, "keep_default_na": False}
        table = with_gaps(pd.read_excel(book, na_values=MISSING, **options))
        cells = pd.read_excel(book, na_values=[""], dtype=object, **options)
        notes = [f"The first of {1 + len(others)} sheets is read: {str(first)!r}."] if others else []
        notes += [title_note(title_lines)] if title_lines else []
    notes += _notes_on_layout(path, title_lines + 1) if path.suffix.lower() == ".xlsx" else []
    for name in table:
        if used is not None and str(name).strip() not in used:
            table[name] = _as_in_cells(table[name], cells[name])
    notes += _read_cells(table, cells, used, target, decimal)
    table.index += title_lines  # a row is two lines below its index
    table.attrs["notes"] = notes
    return table


def read_parquet(
    path: Path, used: "Mapping[str, Column] | None", target: str | None, decimal: str | None
) -> "pd.DataFrame":
    """Read a parquet file; see ``read`` for the other arguments."""
    import pandas as pd

    table = _with_named_index(pd.read_parquet(path))
    kept = [name for name in table if used is not None and str(name).strip() not in used]
    floats = [name for name in kept if table[name].dtype == "float64"]
    exact = _with_named_index(pd.read_parquet(path, dtype_backend="numpy_nullable")) if floats else table
    for name in floats:  # whole numbers beside gaps, such as 2⁵³ + 1
        table[name] = exact[name] if pd.api.types.is_integer_dtype(exact[name]) else table[name]
    cells = table.copy()
    others = table.columns.difference(kept, sort=False)
    table[others] = with_gaps(table[others])
    table.attrs["notes"] = _read_cells(table, cells, used, target, decimal)
    return table


def _notes_on_layout(path: Path, header: int) -> list[str]:
    """Return notes on merged cells and hidden rows below the names of the columns, of which the values say nothing."""
    import openpyxl

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sheet = openpyxl.load_workbook(path).worksheets[0]
    except UNREADABLE:  # a layout that the values do not need
        return []
    merged = sum(cells.min_row > header for cells in sheet.merged_cells.ranges)
    hidden = sum(row > header and layout.hidden for row, layout in sheet.row_dimensions.items())
    notes = [f"Hidden rows are read as all others: {hidden}."] if hidden else []
    if merged:
        notes.append(
            f"Merged cells: {merged}. Only the first cell of each has its value, the others are gaps: unmerge and fill them."
        )
    return notes


def _read_cells(
    table: "pd.DataFrame",
    cells: "pd.DataFrame",
    used: "Mapping[str, Column] | None",
    target: str | None,
    decimal: str | None,
) -> list[str]:
    """Read the texts of a sheet or a parquet file as those of a .csv file; return notes.

    The words for gaps are missing in ``table`` and stand in ``cells``.
    """
    from vadam.estimators.encoding import note_on_leading_zeros

    notes = _read_european_texts(table, decimal) if used is None else []
    for name in table.select_dtypes("number") if used is None else ():
        texts = [cell.strip() for cell in cells[name] if isinstance(cell, str)]
        notes += note_on_leading_zeros(str(name), texts) if str(name).strip() != target else []
    for name in table:
        known = (used or {}).get(str(name).strip())
        if known is not None and known.kind == "category":
            table[name] = with_categories(table[name], _texts(cells[name]), known)
        elif known is not None and known.kind == "number" and {type(cell) for cell in cells[name].dropna()} == {str}:
            if decimal == ",":
                table[name] = european_numbers(table[name])
            elif decimal is None and (numbers := of_known_size(cells[name], known.quantiles, ",.")) is not None:
                table[name] = numbers
        elif str(name).strip() == target and {type(cell) for cell in cells[name].dropna()} == {bool}:
            table[name] = cells[name].astype("boolean")  # beside gaps, where pandas reads 1.0
        elif str(name).strip() == target:
            table[name], note = with_classes(table[name], _texts(cells[name]))
            notes += note
    return notes


def _texts(column: "pd.Series") -> "pd.Series":
    """Return the texts of a column's cells, empty where one is missing or no text, number or truth value."""
    import pandas as pd

    from vadam.estimators import cells

    known = [isinstance(cell, str | Real) and not pd.isna(cell) for cell in column]
    texts = [cells.shown(cell) if is_known else "" for cell, is_known in zip(column, known, strict=True)]
    return pd.Series(texts, index=column.index, dtype=object)


def _read_european_texts(table: "pd.DataFrame", decimal: str | None) -> list[str]:
    """Replace the columns of texts such as "1.234,50 €" by their numbers; return notes on the other texts in them."""
    notes = []
    for name in table.select_dtypes(include=["object", "string"]):
        if decimal != "." and is_european(table[name], surely=decimal == ","):
            numbers = european_numbers(table[name])
            notes += unread(str(name), table[name], numbers)
            table[name] = with_percents(numbers, table[name])
    return notes


def _as_in_cells(column: "pd.Series", cells: "pd.Series") -> "pd.Series":
    """Return a column as the cells of a sheet hold it: texts such as "007" and "NA", whole numbers and truth values beside gaps.

    Cells of several kinds become texts, which every format of a file takes.
    """
    known = cells.dropna()
    kinds = {type(cell) for cell in known}
    if kinds == {bool}:
        return cells.astype("boolean")
    if kinds == {int} and known.map(abs).max() < 2**63:
        return cells.astype("Int64")
    if kinds <= {int, float}:
        return column.astype(float)
    return cells.map(str, na_action="ignore") if str in kinds or len(kinds) > 1 else column


def _title_lines(top: "pd.DataFrame") -> int:
    """Return how many rows of a sheet stand above the names of its columns.

    These fill more than half of the row, or all but its first cell, as below an index without a name.
    """
    filled = top.notna()
    columns = int(filled.any().sum())
    are_names = (filled.sum(axis=1) > columns / 2) | (~filled.iloc[:, 0] & filled.iloc[:, 1:].all(axis=1))
    return next((row for row, found in enumerate(are_names) if columns > 1 and found), 0)


def _with_named_index(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the table with its rows counted from 0, and an index that has a name as a column."""
    named = any(name is not None for name in table.index.names)
    return table.reset_index(drop=not named)
