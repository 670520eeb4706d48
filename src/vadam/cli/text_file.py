"""Read and write tables as text: with any separator, decimal sign and encoding, below a title or not."""

import codecs
import csv
import io
import re
import warnings
from collections.abc import Mapping
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vadam.cli.gaps import with_categories, with_classes, with_gaps
from vadam.cli.number_texts import (
    MISSING,
    european_numbers,
    has_decimal_comma,
    has_decimal_point,
    has_thousands,
    is_european,
    is_number,
    notes_on_another_sign,
    notes_on_signs,
    of_known_size,
    sure_signs,
    unread,
    with_percents,
)
from vadam.cli.phrases import counted

if TYPE_CHECKING:
    import pandas as pd

    from vadam.estimators.encoding import Column

SEPARATORS = ",;\t|"
CHANGED_BY_READING = r"[+-]?0\d+|\+\d+|\d+[eE]\d+"
"""Texts of digits, such as those of ids, that a number does not give back."""
LINES_OF_A_TITLE = 20
"""Number of lines among which the names of the columns are looked for."""
ROWS_OF_A_SAMPLE = 10_000
"""Number of rows whose texts show the decimal sign of a file."""


def read_text(
    path: Path, used: "Mapping[str, Column] | None", target: str | None, decimal: str | None
) -> "pd.DataFrame":
    """Read text with the separator, decimal sign and encoding that it seems to have; see ``read`` for the other arguments."""
    import pandas as pd

    from vadam.estimators.encoding import note_on_leading_zeros

    content = path.read_bytes()
    if not content.strip():
        raise ValueError("it is empty")
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        content = content.decode("utf-16").encode()  # Excel's "Unicode text"
    try:
        content.decode("utf-8-sig")
        encoding = "utf-8-sig"
    except UnicodeDecodeError as error:
        if b"\x00" in content[:1000]:
            raise ValueError("it is not text") from error
        encoding = _western_encoding(content) if len(content) - error.start > 4 else "utf-8-sig"
    head = content[:100_000].decode(encoding, errors="replace")
    lines = _first_lines(head)
    separator = _separator(lines, path.suffix.lower())
    title_lines, names = _header(lines, separator)
    options: dict[str, Any] = {
        "sep": separator,
        "encoding": encoding,
        "na_values": MISSING,
        "keep_default_na": False,
        "skipinitialspace": True,
        "skiprows": title_lines,
        "low_memory": False,  # a column has one type, also in a long file
    }
    table = _parsed(content, options)
    notes = [title_note(title_lines)] if title_lines else []
    records = _records(content.decode(encoding, errors="replace"), options)
    notes += _notes_on_short_rows(records, len(table.columns))
    lines_of_rows = [line for line, *_ in records] if len(records) == len(table) else table.index + title_lines + 2
    index = table.index
    if len(repeated := _repeated_headers(table, names)):
        notes.append(f"Left out: {counted(len(repeated), 'row')} with the names of the columns again.")
        # The names made text of every column: read the other rows anew.
        cells = _parsed(content, {**options, "dtype": str, "na_values": []}).drop(index=repeated)
        content, index = as_csv(cells, separator, names).encode(encoding), cells.index
        options["skiprows"] = 0
        table = _parsed(content, options)
    if decimal is None:
        table, may_be_european, with_dots = _with_a_guessed_sign(table, content, options)
    else:
        table, may_be_european, with_dots = _parsed(content, {**options, "decimal": decimal}), decimal == ",", []
    table.index = index
    for name in [name for name in table if decimal != "." and (used is None or str(name).strip() in used)]:
        if not pd.api.types.is_numeric_dtype(table[name]) and is_european(table[name], surely=may_be_european):
            numbers = european_numbers(table[name])
            notes += unread(str(name), table[name], numbers)
            table[name] = with_percents(numbers, table[name])
    if used is None:
        texts = _parsed(content, {**options, "dtype": str, "nrows": ROWS_OF_A_SAMPLE})
        texts = texts.set_axis(index[: len(texts)])
        notes += notes_on_signs(table, texts, separator) if decimal is None else []
        for name in [name for name in table.select_dtypes("number") if str(name).strip() != target]:
            notes += note_on_leading_zeros(str(name), texts[name].dropna().str.strip().tolist())
    if decimal is not None:
        texts = _parsed(content, {**options, "dtype": str, "nrows": ROWS_OF_A_SAMPLE})
        notes += notes_on_another_sign(texts, decimal, used)
    if used is not None:
        texts = _parsed(content, {**options, "dtype": str, "na_values": []}).set_axis(index)
        known = texts[[name for name in texts if str(name).strip() in used]]
        signs_of_file, numeric = sure_signs(known), []
        for name in table:
            known_column = used.get(str(name).strip())
            if known_column is None:
                table[name] = _as_written(table[name], texts[name])
            elif known_column.kind == "number" and decimal is None:
                whole = all(end.is_integer() for end in known_column.quantiles[:: len(known_column.quantiles) - 1])
                signs = ",." if separator != "," or whole or name in with_dots else ","
                signs = "".join(sign for sign in signs if signs_of_file != {sign})
                numeric.append(name)
                numbers = of_known_size(texts[name], known_column.quantiles, signs)
                if numbers is not None:
                    table[name] = numbers
            elif known_column.kind == "category":
                table[name] = with_categories(table[name], texts[name], known_column)
        notes += notes_on_signs(table, known, separator, numeric)
    for name in [name for name in table if str(name).strip() == target]:
        texts = _parsed(content, {**options, "dtype": str, "na_values": []})[name].set_axis(index)
        table[name], note = with_classes(table[name], texts)
        notes += note
    table.index = pd.Index(lines_of_rows)[table.index] - 2  # a row is two lines below its index
    notes += [
        f"Several columns are named {name!r}: the later ones are called {name + '.1'!r} and so on."
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    table.attrs["notes"] = notes
    return table


def _with_a_guessed_sign(
    table: "pd.DataFrame", content: bytes, options: dict[str, Any]
) -> tuple["pd.DataFrame", bool, list[Any]]:
    """Return the table with the decimal sign that it seems to have, whether that may be a comma, and columns with dots in thousands."""
    separator: str = options["sep"]
    of_text = table.head(ROWS_OF_A_SAMPLE).select_dtypes(exclude=["number", "bool"])
    surely = any(is_european(of_text[name], surely=False) for name in of_text)
    if not surely and separator == ",":
        return table, False, []
    texts = _parsed(content, {**options, "dtype": str, "nrows": ROWS_OF_A_SAMPLE})
    if any(has_decimal_point(texts[name]) or has_thousands(texts[name], ",") for name in texts):
        return table, False, []
    with_dots = [name for name in texts if table[name].dtype.kind == "f" and has_thousands(texts[name], r"\.", surely)]
    if with_dots:
        table = table.assign(**_parsed(content, {**options, "dtype": str})[with_dots])
    if separator != "," and any(has_decimal_comma(table[name]) for name in table):
        table = _parsed(content, {**options, "decimal": ","})
    return table, True, with_dots


def _parsed(content: bytes, options: dict[str, Any]) -> "pd.DataFrame":
    """Return what pandas reads; raise ValueError if rows have more cells than the header, which would shift or lose some."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = pd.read_csv(io.BytesIO(content), index_col=False, **options)
        except pd.errors.ParserWarning as error:
            raise ValueError(
                "its rows have more cells than the line with the names of the columns: name all columns, and put numbers with "
                "decimal commas in quotes"
            ) from error
    return with_gaps(table) if options["na_values"] else table


def _records(text: str, options: dict[str, Any]) -> list[tuple[int, int, bool]]:
    """Return the line in which each row below the names begins, its number of cells and if one is filled; none if there is no telling."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=options["sep"], skipinitialspace=True)
    found, line = [], 1
    try:
        for row in rows:
            if len(row) > 1 or any(cell.strip() for cell in row):
                found.append((line, len(row), any(cell.strip() for cell in row)))
            line = rows.line_num + 1
    except csv.Error:  # a cell that is longer than the limit of the module
        return []
    return [record for record in found if record[0] > options["skiprows"]][1:]


def _notes_on_short_rows(records: list[tuple[int, int, bool]], columns: int) -> list[str]:
    """Return a note on rows with fewer cells than columns: a comment, or a line that is cut, becomes a row with gaps."""
    short = [line for line, cells, is_filled in records if cells < columns and is_filled]
    if not short:
        return []
    lines = ", ".join(map(str, short[:3])) + (", …" if len(short) > 3 else "")
    return [
        f"{counted(len(short), 'row')} with fewer cells than there are columns, in line {lines}: the last ones are gaps."
    ]


def _as_written(column: "pd.Series", texts: "pd.Series") -> "pd.Series":
    """Return the texts of a column, or its numbers if none is changed.

    Ids such as "007", "+49", "12E4" or 2⁵³ + 1 would change, and versions such as "1.9" and "1.10", whose decimals vary in number.
    """
    import pandas as pd

    if column.dtype.kind not in "iuf" or column.isna().all():
        return texts
    known = texts.str.strip()[column.notna()]
    if known.str.fullmatch(CHANGED_BY_READING).any():
        return texts
    if known.str.fullmatch(r"\d+\.\d*0").any() and known.str.partition(".")[2].str.len().nunique() > 1:
        return texts
    if pd.api.types.is_integer_dtype(column) or not known.str.fullmatch(r"-?\d+").all():
        return column
    return texts if column.abs().max() >= 2**53 else column.astype("Int64")


def _western_encoding(content: bytes) -> str:
    """Return Windows' encoding, which has € and dashes, or latin-1 for bytes that mean nothing in it."""
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _repeated_headers(table: "pd.DataFrame", names: list[str]) -> "pd.Index":
    """Return the labels of rows that hold the names of the columns again, as files that were joined have them."""
    if len(names) != table.shape[1] or len(names) < 2:
        return table.index[:0]
    same = [
        table.iloc[:, k].isna() if name in MISSING else table.iloc[:, k].astype(str).str.strip() == name
        for k, name in enumerate(names)
    ]
    return table.index[reduce(and_, same)]


def _first_lines(text: str) -> list[str]:
    """Return the first lines, without one that is cut."""
    lines = re.split(r"\r\n?|\n", text)[:50]  # not str.splitlines, which ends lines at "\u2028" too
    lines = lines[:-1] if not lines[-1] else lines
    return lines[:-1] if len(lines) > 2 and not text.endswith("\n") else lines


def _separator(lines: list[str], suffix: str) -> str:
    """Return the separator that splits the lines, from the earliest one on, into the same, largest number of cells.

    Decimal commas split the numbers too, but not the names of the columns above them.
    """
    if suffix == ".tsv":
        return "\t"
    found: dict[tuple[int, int, int], str] = {}
    for separator in SEPARATORS:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        usual = max(counts, key=counts.count, default=0)
        if usual > 1 and counts.count(usual) >= 0.9 * len(counts):
            found.setdefault((-counts.index(usual), usual, counts.count(usual)), separator)
    return found[max(found)] if found else ","


def _header(lines: list[str], separator: str) -> tuple[int, list[str]]:
    """Return how many lines stand above the names of the columns, and the names.

    Lines above a header are a title if they have other cells than the table, or mostly empty ones.
    """
    rows = list(csv.reader(lines, delimiter=separator))
    counts = [len(row) for row in rows if row]
    usual = max(counts, key=counts.count, default=0)
    if not any(row[-1].strip() for row in rows if len(row) == usual):  # each ends with a separator
        rows = [row[:-1] if len(row) == usual else row for row in rows]
        usual -= 1
    if (
        len(rows) > 1
        and len(rows[0]) == usual - 1
        and not any(map(is_number, rows[0]))
        and any(map(is_number, rows[1]))
    ):
        return 0, [cell.strip() for cell in rows[0]]  # a name is missing, which the reader refuses
    for number, row in enumerate(rows[:LINES_OF_A_TITLE]):
        filled = sum(bool(cell.strip()) for cell in row)
        numbered = filled == usual - 1 and not row[0].strip()  # as pandas writes its index
        if usual > 1 and len(row) == usual and (filled > usual / 2 or numbered):
            cells_span_lines = len(rows) < len(lines) and number > 0
            return (0 if cells_span_lines else number), [cell.strip() for cell in row]
    return 0, [cell.strip() for cell in rows[0]] if rows else []


def title_note(lines: int) -> str:
    """Return a note on lines above the names of the columns."""
    return f"The first {lines} lines are a title and are left out."


def as_csv(table: "pd.DataFrame", separator: str, names: Any = True) -> str:
    """Return a table as text; older versions of Python leave a carriage return in a cell without quotes, which would end the row."""
    text: str = table.to_csv(index=False, header=names, sep=separator)
    if "\r" in text:
        text = table.to_csv(index=False, header=names, sep=separator, quoting=csv.QUOTE_NONNUMERIC)
    return text
