"""Read the values of a table's columns: numbers, texts, dates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date, timedelta
from numbers import Real
from typing import Any

import numpy as np

LARGEST = 1e100
"""Largest absolute value; larger numbers are clipped to it, so that their squares are finite."""
SHOWN_CHARACTERS = 40
CURRENCIES = "$€£¥₹"
SIGNS_BESIDE_NUMBERS = CURRENCIES + "% \t\u00a0\u2009\u202f"
SIGN_BEFORE_CURRENCY = re.compile(rf"^([+-])[{CURRENCIES}]")
SPACED_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}([ '’\u00a0\u2009\u202f])\d{3}(\1\d{3})*([.,]\d+)?")
"""A number such as 12 345,67 or 1'234.5, with spaces or apostrophes between thousands."""
ENGLISH_THOUSANDS = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|[1-9]\d?(,\d{2})+,\d{3})(\.\d+)?")
"""A number such as 1,234.5, or 12,34,567.8 as Indians write it."""
TRUTH_WORDS = {"true": 1.0, "false": 0.0}
MONTH = r"(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?)\.?"
DATE_TEXT = re.compile(
    r"^\s*(\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
    rf"|(\d{{1,2}}[- ])?{MONTH}[- ,]+\d{{4}}|{MONTH} \d{{1,2}},? \d{{4}})"
    r"([T ]\d{1,2}:\d{2}(:\d{2}.*| ?[ap]m|Z|[+-]\d{2}:?\d{2})?)?\s*$",
    re.IGNORECASE,
)
UNREAD_FORMS = {
    "times of the day": (r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]\.?m\.?)?", "turn them into hours"),
    "dates with years of two digits": (
        r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2}([T ]\d{1,2}:\d{2}.*)?",
        "write the years in full",
    ),
}
"""Forms of texts that are kept as texts although they mean more, and what to do about them."""
STAND_IN = re.compile(r"-?99+(\.9+)?")
"""A number such as -999 that often stands for a gap."""
DATE_DIGITS = r"\s*\d{8}\s*"
"""A date such as 20201231, which only a column of dates tells from a number."""


def is_frame(table: Any) -> bool:
    """Return True for a table with named columns, as pandas has them."""
    return hasattr(table, "columns") and hasattr(table, "iloc")


def columns_of(table: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the values of each column of a frame or an array."""
    if is_frame(table):
        for k, name in enumerate(table.columns):
            yield str(name), table.iloc[:, k]
        return
    for k, column in enumerate(np.asarray(table).T):
        yield column_name(k), column


def column_name(k: int) -> str:
    """Return the name of an array's column."""
    return f"x{k}"


def floats(values: Any) -> np.ndarray:
    """Return float64 with NaN where a value is missing, infinite or cannot be read as a number."""
    if isinstance(values, np.ndarray):
        numbers = values.astype(np.float64)
    else:
        import pandas as pd

        if not pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            values = pd.to_numeric(values.astype("object").map(_readable), errors="coerce")
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.clip(np.where(np.isfinite(numbers), numbers, np.nan), -LARGEST, LARGEST)


def infinite(values: Any) -> np.ndarray:
    """Return True for each infinite number of a column; False for texts, even "inf"."""
    import pandas as pd

    if isinstance(values, np.ndarray) or not pd.api.types.is_float_dtype(values):
        return np.zeros(len(values), dtype=bool)
    return np.isinf(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _readable(value: Any) -> Any:
    """Return the seconds of a duration, and text without the signs that people write beside numbers: 1,200 or 12 % or $5.

    Dates are no numbers: they would count nanoseconds, microseconds or months, as pandas keeps them.
    """
    import pandas as pd

    if isinstance(value, timedelta | np.timedelta64):
        return pd.Timedelta(value).total_seconds()
    if isinstance(value, date | pd.Period | np.datetime64):
        return None
    if not isinstance(value, str):
        return value
    text = bare(value)
    return text.replace(",", "") if ENGLISH_THOUSANDS.fullmatch(text) else text


def bare(text: str) -> str:
    """Return the text of a number without currencies, "%" and spaces or apostrophes between thousands, with the keyboard's minus."""
    text = SIGN_BEFORE_CURRENCY.sub(r"\1", text.strip(SIGNS_BESIDE_NUMBERS).replace("\u2212", "-"))
    found = SPACED_NUMBER.fullmatch(text)
    return text.replace(found[1], "") if found else text


def two_units(texts: list[str]) -> list[str]:
    """Return two texts of numbers with different units, as "$5" and "€5", or "5%" and "5"; none if all have one unit."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault("".join(sign for sign in f"{CURRENCIES}%" if sign in text), text)
    if "%" not in first:
        first.pop("", None)  # "$5" beside "5" is one unit
    return list(first.values())[:2] if len(first) > 1 else []


def unread_form(texts: list[str], share: float) -> str | None:
    """Return a note on a form of texts that is not read, if at least a share of them has it."""
    for kind, (form, advice) in UNREAD_FORMS.items():
        found = [text for text in texts if re.fullmatch(form, text, re.IGNORECASE)]
        if found and len(found) >= share * len(texts):
            return f"{kind} such as {found[0]!r} are read as texts; {advice}"
    return None


def percentages(values: Any) -> list[str]:
    """Return the texts of a column that are percentages, as "12 %"."""
    import pandas as pd

    if isinstance(values, np.ndarray) or pd.api.types.is_numeric_dtype(values):
        return []
    return [value for value in values if isinstance(value, str) and "%" in value]


def truth_values(values: Any) -> Any:
    """Return 1 and 0 for the texts of truth values: one other word turns their whole column into text."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values):
        return values
    return values.astype("object").map(lambda x: TRUTH_WORDS.get(x.strip().lower(), x) if isinstance(x, str) else x)


def may_hold_lists(values: Any) -> bool:
    """Return True for a column of a type whose cells can be lists."""
    import pandas as pd

    return values.dtype == object or isinstance(values.dtype, pd.ArrowDtype)


def texts(values: Any) -> list[str | None]:
    """Return the text of each cell, None where a value is missing."""
    import pandas as pd

    return [None if pd.isna(value) else shown(value) for value in values]


def shown(value: Any) -> str:
    """Return the text of a value: 3.0 and 3 are the same category, and "é" of one character and of two."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return unicodedata.normalize("NFC", str(value).strip())


def shortened(text: str) -> str:
    """Return text on one line, cut if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…"


def day_first(series: Any) -> bool | None:
    """Return True for text such as 31.12.2020, or 31/12/2020 if no first number could be a month; None if no text is written so."""
    firsts = [re.match(r"\s*(\d{1,2})([-/.])\d{1,2}[-/.]\d{4}", text) for text in texts(series) if text is not None]
    found = [match for match in firsts if match]
    return any(match[2] == "." or int(match[1]) > 12 for match in found) if found else None


def ambiguous_date(series: Any) -> str | None:
    """Return the first text whose day and month could be exchanged, such as 03/04/2020; None if there is none."""
    for text in texts(series):
        found = re.match(r"\s*(\d{1,2})[-/](\d{1,2})[-/]\d{4}", text or "")
        if found and int(found[1]) != int(found[2]) and max(int(found[1]), int(found[2])) <= 12:
            return text
    return None


def seconds(values: Any, day_first: bool | None) -> np.ndarray:
    """Return the seconds since 1970, NaN where there is no date.

    A text must be written as ``DATE_TEXT`` says, with a month up to 12: pandas reads "10:30" as today, and exchanges day and month.
    """
    import pandas as pd

    if isinstance(values, np.ndarray):
        values = pd.Series(values)
    if isinstance(values.dtype, pd.ArrowDtype) or not pd.api.types.is_datetime64_any_dtype(values):
        values = values.astype("object").map(_moment)
        text = values.astype(str)
        year_first, dotted = text.str.match(r"\s*(\d{4}\D|\d{8})"), text.str.match(r"\s*\d{1,2}\.\d{1,2}\.\d")
        # 2020-12-03 and 03.12.2020 mean one day, whatever the column learned.
        of_day = dotted | (~year_first & bool(day_first))
        first_two = text.str.extract(r"^\s*(\d{1,2})[-/.](\d{1,2})[-/.]").astype(float)
        month = first_two[1].where(of_day, first_two[0])
        values = values.where((text.str.match(DATE_TEXT) | text.str.fullmatch(DATE_DIGITS)) & ~(month > 12))
        moments = pd.Series(pd.NaT, index=values.index, dtype="datetime64[us, UTC]")  # nanoseconds end in 2262
        for rows, first in ((of_day, True), (~of_day, False)):
            found = pd.to_datetime(values[rows], errors="coerce", dayfirst=first, format="mixed", utc=True)
            moments[rows] = found.astype("datetime64[us, UTC]")
        values = moments
    moment = values.dt.tz_convert(None) if getattr(values.dt, "tz", None) is not None else values
    seconds = (moment - pd.Timestamp(0).as_unit("us")).dt.total_seconds()
    return seconds.to_numpy(dtype=np.float64, na_value=np.nan)


def _moment(value: Any) -> Any:
    """Return the beginning of a period, and the text of a number: pandas reads numbers as nanoseconds."""
    import pandas as pd

    if isinstance(value, pd.Period):
        return value.to_timestamp()
    return shown(value) if isinstance(value, Real) and not pd.isna(value) else value
