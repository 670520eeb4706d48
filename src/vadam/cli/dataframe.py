"""Read and write tables in files: .csv with any separator, .tsv, .xlsx and .parquet."""

import codecs
import csv
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from numbers import Real
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vadam import atomic
from vadam.cli.errors import CommandError

if TYPE_CHECKING:
    import pandas as pd

    from vadam.estimators.encoding import Column

SEPARATORS = ",;\t|"
MISSING = ["?", "-", "–", ".", "NULL", "null", "n/a", "N/A", "na", "NA", "none", "None", "nan", "NaN", "#N/A", ""]
DECIMAL_COMMA = re.compile(r"^\s*[+-]?\d+,\d+\s*$")
DECIMAL_POINT = re.compile(r"^\s*[+-]?\d*\.\d+\s*$")
EUROPEAN_NUMBER = re.compile(r"^[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?$")
ENGLISH_NUMBER = re.compile(r"^[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?$")
ENGLISH_DECIMAL = re.compile(r"^[+-]?[1-9]\d{0,2}(,\d{3})+\.\d+$")
SURE_NUMBER = {
    ".": r"[+-]?(\d*\.(\d{1,2}|\d{4,})|0?\.\d+|\d{4,}\.\d+|\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,})",
    ",": r"[+-]?(\d*,(\d{1,2}|\d{4,})|0?,\d+|\d{4,},\d+|\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,})",
}
"""Numbers that have one meaning only, by their decimal sign."""
CHANGED_BY_READING = r"[+-]?0\d+|\+\d+|\d+[eE]\d+"
"""Texts of digits, such as those of ids, that a number does not give back."""
LEADING_ZERO = r"0\d+"
"""Texts of digits such as "007": classes, if they are few."""
MOST = 0.9
"""Share of a text column's values that must be readable as numbers, so that it counts as a column of numbers."""
LINES_OF_A_TITLE = 20
"""Number of lines among which the names of the columns are looked for."""
MOST_LABELS = 10
"""Largest number of different words in a target, beside which "none" is one more."""
ROWS_OF_A_SAMPLE = 10_000
"""Number of rows whose texts show the decimal sign of a file."""
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
UNREADABLE = (
    *(ValueError, OSError, LookupError, RuntimeError, MemoryError, csv.Error),
    *(zipfile.BadZipFile, zlib.error, EOFError, SyntaxError, TypeError, AttributeError),  # of damaged sheets
)
SUFFIXES = (*TEXT_SUFFIXES, ".xlsx", ".xls", ".parquet", ".pq")


def read(
    path: Path,
    used: "Mapping[str, Column] | None" = None,
    target: str | None = None,
    decimal: str | None = None,
) -> "pd.DataFrame":
    """Read a table; raise CommandError if there is none.

    ``used`` are the columns of a model. A cell of text that is one of their categories stays as it is written: "007" or "TRUE". A
    number such as "1,234" is the one of its two meanings that the model knows. The cells of all other columns stay as they are
    written, unless they are plain numbers. In the column ``target`` the word "none" is a class beside other words, and "-" beside "+".
    ``decimal`` is the decimal sign of all texts; None to find it in the table.
    """
    if decimal not in (None, ".", ","):
        raise CommandError(f"--decimal must be . or , and not {decimal}.")
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise ImportError('Reading tables needs pandas: pip install "vadam[sklearn]".') from error
    if not path.exists():
        raise CommandError(f"There is no file {path}: check the path.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise CommandError(
            f"{path} is not a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file: save the table as one of them."
        )
    try:
        if suffix in TEXT_SUFFIXES:
            table = _read_text(path, used, target, decimal)
        elif suffix in (".xlsx", ".xls"):
            table = _read_sheet(path, used, target, decimal)
        else:
            table = _read_parquet(path, used, target, decimal)
    except ImportError as error:
        if suffix == ".xls":
            raise CommandError(f"{path} is in Excel's old format: save it as .xlsx, or pip install xlrd.") from error
        package = "openpyxl" if suffix == ".xlsx" else "pyarrow"
        raise ImportError(f'Reading {suffix} needs {package}: pip install "vadam[sklearn]".') from error
    except UNREADABLE as error:
        raise CommandError(f"{path} cannot be read as a table: {error or type(error).__name__}") from error
    table.columns = [str(name).strip() for name in table.columns]
    doubled = sorted({name for name in table.columns if list(table.columns).count(name) > 1})
    if doubled:
        raise CommandError(f"{path} has several columns named {', '.join(map(repr, doubled))}: rename them.")
    return table


def _read_text(
    path: Path, used: "Mapping[str, Column] | None", target: str | None, decimal: str | None
) -> "pd.DataFrame":
    """Read text with the separator, decimal sign and encoding that it seems to have; see ``read`` for the other arguments."""
    import pandas as pd

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
    notes = [_title_note(title_lines)] if title_lines else []
    records = _records(content.decode(encoding, errors="replace"), options)
    notes += _notes_on_short_rows(records, len(table.columns))
    lines_of_rows = [line for line, *_ in records] if len(records) == len(table) else table.index + title_lines + 2
    index = table.index
    if len(repeated := _repeated_headers(table, names)):
        notes.append(f"Left out: {counted(len(repeated), 'row')} with the names of the columns again.")
        # The names made text of every column: read the other rows anew.
        cells = _parsed(content, {**options, "dtype": str, "na_values": []}).drop(index=repeated)
        content, index = _as_csv(cells, separator, names).encode(encoding), cells.index
        options["skiprows"] = 0
        table = _parsed(content, options)
    if decimal is None:
        table, may_be_european, with_dots = _with_a_guessed_sign(table, content, options)
    else:
        table, may_be_european, with_dots = _parsed(content, {**options, "decimal": decimal}), decimal == ",", []
    table.index = index
    for name in [name for name in table if decimal != "." and (used is None or str(name).strip() in used)]:
        if not pd.api.types.is_numeric_dtype(table[name]) and _is_european(table[name], surely=may_be_european):
            numbers = european_numbers(table[name])
            notes += unread(str(name), table[name], numbers)
            table[name] = numbers
    if used is None and decimal is None:
        texts = _parsed(content, {**options, "dtype": str, "nrows": ROWS_OF_A_SAMPLE})
        notes += _notes_on_signs(table, texts.set_axis(index[: len(texts)]), separator)
    if decimal is not None:
        texts = _parsed(content, {**options, "dtype": str, "nrows": ROWS_OF_A_SAMPLE})
        notes += _notes_on_another_sign(texts, decimal, used)
    if used is not None:
        texts = _parsed(content, {**options, "dtype": str, "na_values": []}).set_axis(index)
        for name in table:
            known_column = used.get(str(name).strip())
            if known_column is None:
                table[name] = _as_written(table[name], texts[name])
            elif known_column.kind == "number" and decimal is None:
                whole = all(end.is_integer() for end in known_column.quantiles[:: len(known_column.quantiles) - 1])
                signs = ",." if separator != "," or whole or name in with_dots else ","
                numbers = _of_known_size(texts[name], known_column.quantiles, signs)
                if numbers is not None:
                    table[name] = numbers
            elif known_column.kind == "category":
                table[name] = _with_categories(table[name], texts[name], known_column)
    for name in [name for name in table if str(name).strip() == target]:
        texts = _parsed(content, {**options, "dtype": str, "na_values": []})[name].set_axis(index)
        table[name], note = _with_classes(table[name], texts)
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
    surely = any(_is_european(of_text[name], surely=False) for name in of_text)
    if not surely and separator == ",":
        return table, False, []
    texts = _parsed(content, {**options, "dtype": str, "nrows": ROWS_OF_A_SAMPLE})
    if any(_has_decimal_point(texts[name]) or _has_thousands(texts[name], ",") for name in texts):
        return table, False, []
    with_dots = [name for name in texts if table[name].dtype.kind == "f" and _has_thousands(texts[name], r"\.", surely)]
    if with_dots:
        table = table.assign(**_parsed(content, {**options, "dtype": str})[with_dots])
    if separator != "," and any(_has_decimal_comma(table[name]) for name in table):
        table = _parsed(content, {**options, "decimal": ","})
    return table, True, with_dots


def _notes_on_signs(table: "pd.DataFrame", texts: "pd.DataFrame", separator: str) -> list[str]:
    """Return notes on columns of numbers such as "1,234" alone, which have two meanings, if no other text of the file tells them apart."""
    from vadam.estimators import cells

    bare = {name: _bare(texts[name]) for name in texts}
    signs = {
        sign for sign, sure in SURE_NUMBER.items() if any(column.str.fullmatch(sure).any() for column in bare.values())
    }
    notes = []
    for name, column in bare.items():
        grouped = column[column.str.fullmatch(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")]
        if not len(grouped) or not (column.str.fullmatch(r"[+-]?\d{1,3}") | column.index.isin(grouped.index)).all():
            continue
        text, value = grouped.iloc[0], cells.floats(table.loc[grouped.index[:1], name])[0]
        mark, other = (",", ".") if "," in text else (".", ",")
        decimal = other if abs(value) >= 1000 else mark
        usual = (separator, mark, decimal) == (",", ".", ".") and len(grouped) == len(column)
        if value == value and signs != {decimal} and not usual:
            against = "," if decimal == "." else "."
            notes.append(f"{name}: {text!r} is read as {value:g}; give --decimal {against} if that is wrong.")
    return notes


def _notes_on_another_sign(texts: "pd.DataFrame", decimal: str, used: "Mapping[str, Column] | None") -> list[str]:
    """Return notes on columns of numbers in which some have another decimal sign than the one given."""
    other, notes = "," if decimal == "." else ".", []
    for name in [name for name in texts if used is None or str(name).strip() in used]:
        column = _bare(texts[name])
        numbers = column.str.fullmatch(EUROPEAN_NUMBER) | column.str.fullmatch(ENGLISH_NUMBER)
        odd = column[column.str.fullmatch(SURE_NUMBER[other])]
        if len(odd) and numbers.mean() >= MOST:
            notes.append(
                f"{name}: {odd.iloc[0]!r} has another decimal sign than --decimal {decimal}: "
                f"give --decimal {other} if that is wrong."
            )
    return notes


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
    return _with_gaps(table) if options["na_values"] else table


def _with_gaps(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table without the words for gaps, which may stand between white space."""
    for name in table.select_dtypes(include=["object", "string", "category"]):
        gaps = [isinstance(cell, str) and cell.strip() in MISSING for cell in table[name]]
        table[name] = table[name].mask(gaps) if any(gaps) else table[name]
    return table


def _with_categories(column: "pd.Series", texts: "pd.Series", known: "Column") -> "pd.Series":
    """Return a column with the texts that are categories of a model, where they were read as gaps, numbers or truth values."""
    cells = texts.str.strip().astype(object)
    found = cells.isin(known.categories)
    return cells.where(found, column.astype(object)) if found.any() else column


def _with_classes(column: "pd.Series", texts: "pd.Series") -> tuple["pd.Series", list[str]]:
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


def _labels_like_gaps(column: "pd.Series") -> list[str]:
    """Return the words for gaps that are labels in a column with these others: "none" beside words, and "-" beside "+"."""
    known = {str(value).strip() for value in column.dropna()}
    words = not any(_is_number(text) for text in known) and bool(known)
    return [*(("none", "None") if words and len(known) <= MOST_LABELS else ()), *(("-", "–") if known == {"+"} else ())]


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
        and not any(map(_is_number, rows[0]))
        and any(map(_is_number, rows[1]))
    ):
        return 0, [cell.strip() for cell in rows[0]]  # a name is missing, which the reader refuses
    for number, row in enumerate(rows[:LINES_OF_A_TITLE]):
        if usual > 1 and len(row) == usual and sum(bool(cell.strip()) for cell in row) > usual / 2:
            cells_span_lines = len(rows) < len(lines) and number > 0
            return (0 if cells_span_lines else number), [cell.strip() for cell in row]
    return 0, [cell.strip() for cell in rows[0]] if rows else []


def _is_number(cell: str) -> bool:
    return bool(EUROPEAN_NUMBER.match(cell.strip()) or DECIMAL_POINT.match(cell))


def _has_decimal_comma(column: "pd.Series") -> bool:
    known = [value for value in column.dropna() if isinstance(value, str)]
    return bool(known) and sum(bool(DECIMAL_COMMA.match(value)) for value in known) > 0.5 * len(known)


def _has_decimal_point(column: "pd.Series") -> bool:
    """Return True if most texts are numbers such as "-0.25" or "$1,234.5", and not all could have dots between thousands."""
    known = _bare(column)
    points = [text for text in known if DECIMAL_POINT.match(text) or ENGLISH_DECIMAL.match(text)]
    return len(points) > 0.5 * len(known) and not all(EUROPEAN_NUMBER.match(text) for text in points)


def _has_thousands(column: "pd.Series", sign: str, surely: bool = False) -> bool:
    """Return True if a sign stands in every number from 1,000 on, and in no smaller one: in both "1,234" and "999", not in "1,5".

    Where it is ``surely`` not the decimal sign of the file, no small number is needed to tell.
    """
    texts = _bare(column)
    grouped = texts.str.fullmatch(rf"[+-]?[1-9]\d{{0,2}}({sign}\d{{3}})+")
    small = texts.str.fullmatch(r"[+-]?\d{1,3}")
    told = grouped.any() if surely else min(texts[grouped].nunique(), texts[small].nunique()) >= 2
    return bool((grouped | small).all() and told)


def _of_known_size(column: "pd.Series", quantiles: Sequence[float], signs: str) -> "pd.Series | None":
    """Return the numbers of a column whose texts such as "1,234" have two meanings, if a model knows one of the two better.

    It knows the meaning of which more numbers lie between its extreme quantiles, or between the next ones if these are equal.
    """
    import pandas as pd

    texts = _bare(column[~column.str.strip().isin(MISSING)])
    for sign in signs:
        grouped = texts.str.fullmatch(rf"[+-]?[1-9]\d{{0,2}}[{sign}]\d{{3}}")
        if not grouped.any() or not (grouped | texts.str.fullmatch(r"[+-]?\d{1,3}")).all():
            continue
        meanings = [pd.to_numeric(texts.str.replace(sign, mark, regex=False)).astype(float) for mark in ("", ".")]
        shares = [
            [meaning[grouped].between(quantiles[k], quantiles[-1 - k]).mean() for k in (0, 1)] for meaning in meanings
        ]
        if shares[0] != shares[1]:
            return meanings[shares.index(max(shares))].reindex(column.index)
    return None


def _is_european(column: "pd.Series", surely: bool) -> bool:
    """Return True if nearly all texts of a column are numbers such as "1.234,56 €".

    Unless ``surely``, one text must have both a dot and a comma, or many no other meaning, as "0,234": "1,234" alone may be a thousand.
    """
    texts = _bare(column)
    if not len(texts):
        return False
    matching = texts.map(lambda text: bool(EUROPEAN_NUMBER.match(text)))
    mixed = any("." in text and "," in text for text in texts[matching])
    surely = surely or texts.map(lambda text: bool(ENGLISH_NUMBER.match(text))).mean() < MOST
    return bool(matching.mean() >= MOST and (mixed or (surely and texts.str.contains(r"[.,]", regex=True).any())))


def european_numbers(column: "pd.Series") -> "pd.Series":
    """Return the numbers of a column with texts such as "1.234,56 €", NaN for all other texts."""
    import pandas as pd

    texts = _bare(column)
    matching = texts[texts.map(lambda text: bool(EUROPEAN_NUMBER.match(text)))]
    plain = matching.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return pd.to_numeric(plain).astype(float).reindex(column.index)


def unread(name: str, column: "pd.Series", numbers: "pd.Series") -> list[str]:
    """Return a note on the texts of a column that are not numbers."""
    odd = sorted({str(text) for text in column[column.notna() & numbers.isna()]})
    return [f"{name}: {first_three(odd)} cannot be read as numbers and count as missing"] if odd else []


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, as "1 row" and "7 rows"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_three(texts: list[str]) -> str:
    """Return up to three texts, in quotes, and an ellipsis if there are more."""
    return ", ".join(map(repr, texts[:3])) + (", …" if len(texts) > 3 else "")


def _bare(column: "pd.Series") -> "pd.Series":
    """Return the known texts of a column without the signs that people write beside numbers."""
    from vadam.estimators import cells

    return column.dropna().astype(str).map(cells.bare)


def _read_sheet(
    path: Path, used: "Mapping[str, Column] | None", target: str | None, decimal: str | None
) -> "pd.DataFrame":
    """Read the first sheet of a workbook, and say so if there are several; see ``read`` for the other arguments."""
    import pandas as pd

    with pd.ExcelFile(path) as book:
        first, *others = book.sheet_names
        title_lines = _title_lines(pd.read_excel(book, sheet_name=first, header=None, nrows=LINES_OF_A_TITLE))
        options: dict[str, Any] = {"sheet_name": first, "header": title_lines, "keep_default_na": False}
        table = _with_gaps(pd.read_excel(book, na_values=MISSING, **options))
        cells = pd.read_excel(book, na_values=[""], dtype=object, **options)
        notes = [f"The first of {1 + len(others)} sheets is read: {str(first)!r}."] if others else []
        notes += [_title_note(title_lines)] if title_lines else []
    notes += _notes_on_layout(path, title_lines + 1) if path.suffix.lower() == ".xlsx" else []
    for name in table:
        if used is not None and str(name).strip() not in used:
            table[name] = _as_in_cells(table[name], cells[name])
    notes += _read_cells(table, cells, used, target, decimal)
    table.index += title_lines  # a row is two lines below its index
    table.attrs["notes"] = notes
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


def _read_parquet(
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
    table[others] = _with_gaps(table[others])
    table.attrs["notes"] = _read_cells(table, cells, used, target, decimal)
    return table


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
    notes = _read_european_texts(table, decimal) if used is None else []
    for name in table:
        known = (used or {}).get(str(name).strip())
        if known is not None and known.kind == "category":
            table[name] = _with_categories(table[name], _texts(cells[name]), known)
        elif known is not None and known.kind == "number" and {type(cell) for cell in cells[name].dropna()} == {str}:
            if decimal == ",":
                table[name] = european_numbers(table[name])
            elif decimal is None and (numbers := _of_known_size(cells[name], known.quantiles, ",.")) is not None:
                table[name] = numbers
        elif str(name).strip() == target:
            table[name], note = _with_classes(table[name], _texts(cells[name]))
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
        if decimal != "." and _is_european(table[name], surely=decimal == ","):
            numbers = european_numbers(table[name])
            notes += unread(str(name), table[name], numbers)
            table[name] = numbers
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
    """Return how many rows of a sheet stand above the names of its columns, which fill more than half of the row."""
    filled = top.notna().sum(axis=1).tolist()
    columns = int(top.notna().any().sum())
    return next((row for row, cells in enumerate(filled) if columns > 1 and cells > columns / 2), 0)


def _title_note(lines: int) -> str:
    return f"The first {lines} lines are a title and are left out."


def _with_named_index(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the table with its rows counted from 0, and an index that has a name as a column."""
    named = any(name is not None for name in table.index.names)
    return table.reset_index(drop=not named)


def _as_csv(table: "pd.DataFrame", separator: str, names: Any = True) -> str:
    """Return a table as text; older versions of Python leave a carriage return in a cell without quotes, which would end the row."""
    text: str = table.to_csv(index=False, header=names, sep=separator)
    if "\r" in text:
        text = table.to_csv(index=False, header=names, sep=separator, quoting=csv.QUOTE_NONNUMERIC)
    return text


def writer(out: Path) -> "Callable[[pd.DataFrame], None]":
    """Return a function that writes a table to the file."""
    match out.suffix.lower():
        case ".csv":
            return lambda table: atomic.write_bytes(out, _as_csv(table, ",").encode())
        case ".tsv":
            return lambda table: atomic.write_bytes(out, _as_csv(table, "\t").encode())
        case ".parquet" | ".pq":
            return lambda table: atomic.write_bytes(out, table.to_parquet(index=False))
        case _:
            raise CommandError(f"--out must be a .csv or .parquet file (or .tsv), not {out}.")
