"""Tell what the texts of numbers mean: "1,234", "1.234,50 €", "12 345.5"."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vadam.cli.phrases import first_three

if TYPE_CHECKING:
    import pandas as pd

    from vadam.estimators.encoding import Column

MISSING = ["?", "-", "–", ".", "NULL", "null", "n/a", "N/A", "na", "NA", "none", "None", "nan", "NaN", "#N/A", ""]
EXPONENT = r"([eE][+-]?\d+)?"
DECIMAL_COMMA = re.compile(rf"^\s*[+-]?\d+,\d+{EXPONENT}\s*$")
DECIMAL_POINT = re.compile(rf"^\s*[+-]?\d*\.\d+{EXPONENT}\s*$")
EUROPEAN_NUMBER = re.compile(rf"^[+-]?([1-9]\d{{0,2}}(\.\d{{3}})+(,\d+)?|\d+(,\d+)?{EXPONENT})$")
ENGLISH_NUMBER = re.compile(rf"^[+-]?([1-9]\d{{0,2}}(,\d{{3}})+(\.\d+)?|\d+(\.\d+)?{EXPONENT})$")
ENGLISH_DECIMAL = re.compile(r"^[+-]?[1-9]\d{0,2}(,\d{3})+\.\d+$")
SURE_NUMBER = {
    ".": r"[+-]?(\d*\.(\d{1,2}|\d{4,})|0?\.\d+|\d{4,}\.\d+|\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,})",
    ",": r"[+-]?(\d*,(\d{1,2}|\d{4,})|0?,\d+|\d{4,},\d+|\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,})",
}
"""Numbers that have one meaning only, by their decimal sign."""
MOST = 0.9
"""Share of a text column's values that must be readable as numbers, so that it counts as a column of numbers."""


def is_european(column: "pd.Series", surely: bool) -> bool:
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


def with_percents(numbers: "pd.Series", column: "pd.Series") -> "pd.Series":
    """Return the numbers of a column as texts with "%" if they are percentages, so that a model knows this unit."""
    from vadam.estimators import cells

    return numbers.map(lambda number: f"{number!r}%", na_action="ignore") if cells.percentages(column) else numbers


def of_known_size(column: "pd.Series", quantiles: Sequence[float], signs: str) -> "pd.Series | None":
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


def has_decimal_comma(column: "pd.Series") -> bool:
    """Return True if most texts are numbers such as "0,25"."""
    known = [value for value in column.dropna() if isinstance(value, str)]
    return bool(known) and sum(bool(DECIMAL_COMMA.match(value)) for value in known) > 0.5 * len(known)


def has_decimal_point(column: "pd.Series") -> bool:
    """Return True if most texts are numbers such as "-0.25" or "$1,234.5", and not all could have dots between thousands."""
    known = _bare(column)
    points = [text for text in known if DECIMAL_POINT.match(text) or ENGLISH_DECIMAL.match(text)]
    return len(points) > 0.5 * len(known) and not all(EUROPEAN_NUMBER.match(text) for text in points)


def has_thousands(column: "pd.Series", sign: str, surely: bool = False) -> bool:
    """Return True if a sign stands in every number from 1,000 on, and in no smaller one: in both "1,234" and "999", not in "1,5".

    Where it is ``surely`` not the decimal sign of the file, no small number is needed to tell.
    """
    texts = _bare(column)
    grouped = texts.str.fullmatch(rf"[+-]?[1-9]\d{{0,2}}({sign}\d{{3}})+")
    small = texts.str.fullmatch(r"[+-]?\d{1,3}")
    told = grouped.any() if surely else min(texts[grouped].nunique(), texts[small].nunique()) >= 2
    return bool((grouped | small).all() and told)


def is_number(cell: str) -> bool:
    """Return True for the text of a number, with a decimal point or a decimal comma."""
    return bool(EUROPEAN_NUMBER.match(cell.strip()) or DECIMAL_POINT.match(cell))


def sure_signs(texts: "pd.DataFrame") -> set[str]:
    """Return the decimal signs of the numbers in a table that have one meaning only."""
    bare = [_bare(texts[name]) for name in texts]
    return {sign for sign, sure in SURE_NUMBER.items() if any(column.str.fullmatch(sure).any() for column in bare)}


def notes_on_signs(
    table: "pd.DataFrame", texts: "pd.DataFrame", separator: str, names: Iterable[str] | None = None
) -> list[str]:
    """Return notes on columns of numbers such as "1,234" alone, which have two meanings, if no other text of the file tells them apart."""
    from vadam.estimators import cells

    signs, notes = sure_signs(texts), []
    for name in texts if names is None else names:
        column = _bare(texts[name])
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


def notes_on_another_sign(texts: "pd.DataFrame", decimal: str, used: "Mapping[str, Column] | None") -> list[str]:
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


def unread(name: str, column: "pd.Series", numbers: "pd.Series") -> list[str]:
    """Return a note on the texts of a column that are not numbers."""
    odd = sorted({str(text) for text in column[column.notna() & numbers.isna()]})
    return [f"{name}: {first_three(odd)} cannot be read as numbers and count as missing"] if odd else []


def _bare(column: "pd.Series") -> "pd.Series":
    """Return the known texts of a column without the signs that people write beside numbers."""
    from vadam.estimators import cells

    return column.dropna().astype(str).map(cells.bare)
