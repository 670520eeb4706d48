"""Encode the columns of a table as numbers for a network.

    numbers      themselves; where one is missing the mean, and a column that says so
    categories   a column of zeros and ones for each
    durations    their seconds
    dates        days since 1970, the turn of the year, of the week and, where it varies, of the day
    left out     ids, free text, columns that never change; each with its reason

An encoder is fitted to one table and makes the same columns of others. A value that it has never seen, an unknown category or a
number that is missing where none was, is filled with values that it has seen, in several ways: the prediction is then an average
over them, and as uncertain as they are different. A fill is the same for all rows, so that no prediction depends on other rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from vadam.estimators import cells

MAX_CATEGORIES = 50
SHARE_OF_DISTINCT = 0.5
"""Share of different values above which a text column is free text, not a category."""
ENOUGH = 0.9
"""Share of a text column's values that must be readable as numbers or dates, so that it counts as such a column."""
QUANTILES = np.linspace(0, 1, 21)
FILLS = 8
"""Number of ways to fill a value that was never seen in training; predictions are averaged over them."""
ID_NAME = re.compile(
    r"(^|[_\s.-])(id|ids|uuid|guid|index|key|no|number|record|row|rownames|serial|unnamed: 0|lfd|#)$|(nr|nummer)\.?$",
    re.IGNORECASE,
)
NAMED_ID = "it looks like an id by its name: a different whole number in every row; rename it to keep it"
COUNTED_ID = "it looks like an id: it counts the rows; place it behind another column to keep it"
LEADING_ZERO = re.compile(r"0\d+")
"""Texts of digits such as "01234", which may be codes."""
NO_DATE = np.iinfo(np.int64).min
"""The number that numpy keeps for a date that is missing."""
NEAR_ONE = 20
"""Largest distance of a row's number from its place in the table, so that the numbers count the rows."""
MOST_NOTES = 3
"""Largest number of notes on the categories of one column."""
FAR_OUTSIDE = 0.1
"""Distance from the fitted range, as a share of it, beyond which a number is far outside."""
DAY = 24 * 60 * 60
YEAR = 365.2425 * DAY


Draw = Callable[[int], np.ndarray]
"""A function that returns as many levels between 0 and 1."""


@dataclass(frozen=True)
class Column:
    """The encoding of one column of a table."""

    name: str
    kind: str
    """"number", "category" or "date"."""
    missing: bool = False
    """True if the fitted table had missing values: an extra column marks them, or zeros for all categories."""
    fill: float = 0.0
    """The number that replaces a missing one."""
    quantiles: tuple[float, ...] = ()
    """Quantiles of a number, from the least to the largest."""
    categories: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    """The share of rows of each category."""
    percent: bool = False
    """True if numbers of the fitted table were percentages, as "12 %"."""
    day_first: bool | None = None
    """The order of dates such as 03/04/2020 in the fitted table; None if it had none."""
    has_time: bool = False

    @property
    def outputs(self) -> list[str]:
        """Return the names of the encoded columns."""
        if self.kind == "category":
            return [f"{self.name}={category}" for category in self.categories]
        turns = ("year", "week", *(("day",) if self.has_time else ())) if self.kind == "date" else ()
        parts = [f"{part} of {turn} of {self.name}" for turn in turns for part in ("sine", "cosine")]
        return [self.name, *parts, *([f"{self.name} is missing"] if self.missing else [])]


def _floats_of(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


_KINDS_OF_FIELDS: dict[str, Callable[[Any], Any]] = {
    "name": str,
    "kind": str,
    "missing": bool,
    "fill": float,
    "quantiles": _floats_of,
    "categories": lambda values: tuple(map(str, values)),
    "shares": _floats_of,
    "percent": bool,
    "day_first": lambda value: None if value is None else bool(value),
    "has_time": bool,
}
"""Functions that read the fields of a saved column; they raise for other values."""


def _check_column(column: Column) -> None:
    """Raise ValueError if the numbers of a saved column cannot be those of a fitted one."""
    is_category = column.kind == "category"
    numbers, expected = (column.shares, len(column.categories)) if is_category else (column.quantiles, len(QUANTILES))
    sound = bool(np.isfinite([column.fill, *numbers]).all()) and (not is_category or (min(numbers, default=0) > 0))
    if len(numbers) != expected or not sound:
        field = "shares" if is_category else "quantiles"
        raise ValueError(f"the {field} of column {column.name!r} must be {expected} finite numbers, got {numbers!r}")


@dataclass(frozen=True)
class Encoded:
    """The encoded numbers of a table, and the rows with a value that the encoder has never seen."""

    values: np.ndarray
    unseen: np.ndarray


@dataclass
class TableEncoder:
    """Encode tables: DataFrames of any columns, or arrays of numbers in which NaN stands for a missing one."""

    columns: list[Column] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """The columns that are not used, with the reason."""
    notes: list[str] = field(default_factory=list)
    """Notes on how columns were converted."""
    names: list[str] = field(default_factory=list)
    """The names of all columns in the order of the table, by which those of an array are told."""

    @property
    def outputs(self) -> list[str]:
        """Return the names of the encoded columns."""
        return [name for column in self.columns for name in column.outputs]

    def fit(self, table: Any) -> Self:
        """Learn the columns of a table; raise ValueError if there is none to learn from."""
        self.columns, self.left_out, self.notes = [], {}, []
        frame = cells.is_frame(table)
        self.names = names = [name for name, _ in cells.columns_of(table)]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the table has several columns named {doubled[0]!r}: rename them")
        for name, values in cells.columns_of(table):
            first = len(names) > 1 and name == names[0]
            self._learn(name, values, first) if frame else self._learn_number(name, values)
        if not self.columns:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
            raise ValueError(f"the table has no column to learn from ({reasons or 'it has none'})")
        return self

    def encode(self, table: Any, rng: np.random.Generator | None = None, *, fill: int | None = None) -> Encoded:
        """Return the numbers of a table with the columns that were learned.

        ``rng`` draws values that are unseen, for each row anew. ``fill`` chooses one of ``FILLS`` ways to fill them in all rows alike.
        """
        given, names = dict(self._named(table)), [column.name for column in self.columns]
        if absent := [name for name in names if name not in given]:
            raise ValueError(f"the table has no column {absent[0]!r}, which the model was fitted with")
        draw: Draw = (rng or np.random.default_rng(0)).random
        draws = [draw if fill is None else partial(np.full, fill_value=_level(fill, k)) for k in range(len(names))]
        columns = zip(self.columns, draws, strict=True)
        parts = [_ENCODERS[column.kind](column, given[column.name], drawn) for column, drawn in columns]
        unseen = np.logical_or.reduce([unseen for _, unseen in parts])
        return Encoded(np.concatenate([values for values, _ in parts], axis=1), unseen)

    def read(self, table: Any) -> tuple[Any, list[str]]:
        """Return a DataFrame with the texts of numbers and dates read, and notes on guesses and on what cannot be read."""
        import pandas as pd

        found, notes = table.copy(deep=False), []
        of_name = {column.name: column for column in self.columns}
        for place, (name, values) in enumerate(self._named(table)):
            column = of_name.get(name)
            if column is None:
                continue
            if column.kind == "date" and not pd.api.types.is_datetime64_any_dtype(values):
                if column.day_first is None:
                    column = replace(column, day_first=cells.day_first(values))
                    notes += note_on_order(name, values, column.day_first)
                numbers = numbers_of(column, values)
                notes += _note_on_unread(name, values, numbers, "dates")
                microseconds = np.round(numbers * (DAY * 1e6))
                dates = np.where(np.isfinite(numbers), microseconds, NO_DATE).astype(np.int64).view("datetime64[us]")
                found.isetitem(place, pd.Series(dates, index=table.index))
            elif column.kind == "number" and not pd.api.types.is_numeric_dtype(values):
                numbers = numbers_of(column, values)
                notes += _note_on_unread(name, values, numbers, "numbers")
                found.isetitem(place, pd.Series(numbers, index=table.index))
        return found, notes

    def _named(self, table: Any) -> list[tuple[str, Any]]:
        """Return the columns of a table with the names of the fitted one, by their order where one of the two is an array."""
        given = list(cells.columns_of(table))
        of_array = self.names == [cells.column_name(k) for k in range(len(self.names))] and {
            name for name, _ in given
        }.isdisjoint(self.names)
        if len(given) == len(self.names) and (of_array or not cells.is_frame(table)):
            return [(name, values) for name, (_, values) in zip(self.names, given, strict=True)]
        return given

    def unseen_values(self, table: Any) -> dict[str, list[str]]:
        """Return the categories of each column that the encoder has never seen."""
        found = {}
        given = dict(cells.columns_of(table))
        for column in self.columns:
            if column.kind == "category" and column.name in given:
                new = set(cells.texts(given[column.name])) - {*column.categories, None}
                if new:
                    found[column.name] = sorted(map(str, new))
        return found

    def outside(self, table: Any) -> dict[str, tuple[int, str, str]]:
        """Return, for each column of numbers or dates, how many rows lie far outside of the fitted range, and its ends."""
        found = {}
        given = dict(cells.columns_of(table))
        for column in self.columns:
            if column.kind == "category" or column.name not in given:
                continue
            numbers = numbers_of(column, given[column.name])
            low, high = column.quantiles[0], column.quantiles[-1]
            margin = FAR_OUTSIDE * (high - low)
            if rows := int(((numbers < low - margin) | (numbers > high + margin)).sum()):
                found[column.name] = (rows, _end(column, low), _end(column, high))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the encoder as JSON types; :meth:`from_dict` reads it."""
        columns = [asdict(column) for column in self.columns]
        return {"columns": columns, "left_out": self.left_out, "notes": self.notes, "names": self.names}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> TableEncoder:
        """Return the encoder that ``as_dict`` has written."""
        columns = [Column(**{k: _KINDS_OF_FIELDS[k](v) for k, v in column.items()}) for column in saved["columns"]]
        if unknown := [column.kind for column in columns if column.kind not in _ENCODERS]:
            raise ValueError(f"unknown kind of column {unknown[0]!r}")
        for column in columns:
            _check_column(column)
        left_out, names = dict(saved["left_out"]), list(map(str, saved["names"]))
        if sorted(names) != sorted([*left_out, *(column.name for column in columns)]):
            raise ValueError(f"the names of all columns must be those used and those left out, got {str(names)[:50]}")
        return cls(columns, left_out, list(saved["notes"]), names)

    def _learn(self, name: str, series: Any, first: bool) -> None:
        import pandas as pd

        known = series.dropna()
        if not len(known):
            self.left_out[name] = "it is empty"
        elif cells.may_hold_lists(known) and any(isinstance(value, list | dict | set | np.ndarray) for value in known):
            self.left_out[name] = "it holds lists or dictionaries; turn them into columns"
        elif known.nunique() == 1 and len(known) == len(series):
            self.left_out[name] = f"it is always {cells.shortened(cells.shown(known.iloc[0]))}"
        elif pd.api.types.is_bool_dtype(series) or pd.api.types.is_numeric_dtype(series):
            if reason := _id_reason(name, known, first):
                self.left_out[name] = reason
            else:
                self._learn_number(name, cells.floats(series))
        elif pd.api.types.is_datetime64_any_dtype(series) or isinstance(series.dtype, pd.PeriodDtype):
            self._learn_date(name, series)
        elif isinstance(series.dtype, pd.CategoricalDtype):
            self._learn_categories(name, series)
        else:
            self._learn_text(name, series, first)

    def _learn_text(self, name: str, series: Any, first: bool) -> None:
        import pandas as pd

        texts = [text for text in cells.texts(series) if text is not None]
        numbers = cells.floats(series)
        if np.isfinite(numbers).sum() >= ENOUGH * len(texts):
            if reason := _id_reason(name, pd.Series(numbers, index=series.index).dropna(), first):
                self.left_out[name] = reason
                return
            self.notes += _note_on_unread(name, series, numbers, "numbers")
            odd = _unread(series, numbers)
            self.notes += note_on_units(name, [text for text in texts if text not in odd])
            self.notes += note_on_leading_zeros(name, texts)
            self._learn_number(name, numbers, bool(cells.percentages(series)))
        elif sum(bool(cells.DATE_TEXT.match(text)) for text in texts) >= ENOUGH * len(texts):
            self._learn_date(name, series)
        else:
            if note := cells.unread_form(texts, ENOUGH):
                self.notes.append(f"{name}: {note}")
            self._learn_categories(name, series)

    def _learn_number(self, name: str, numbers: np.ndarray, percent: bool = False) -> None:
        self.notes += [*note_on_stand_ins(name, numbers), *note_on_dates_of_digits(name, numbers)]
        self.columns.append(replace(_number(name, numbers), percent=percent))

    def _learn_categories(self, name: str, series: Any) -> None:
        texts = [text for text in cells.texts(series) if text is not None]
        values, counts = np.unique(np.array(texts, dtype=object).astype(str), return_counts=True)
        if len(values) > MAX_CATEGORIES or (len(values) > 10 and len(values) > SHARE_OF_DISTINCT * len(texts)):
            self.left_out[name] = (
                "it looks like an id: a different text in every row"
                if len(values) == len(texts) and not any(" " in text for text in texts)
                else f"it is text with {len(values)} different values; turn it into numbers or categories"
            )
            return
        self.notes += [
            f"{name}: {', '.join(map(repr, alike))} are different categories; write them alike if they mean the same"
            for alike in differ_in_case(values.tolist())[:MOST_NOTES]
        ]
        self.columns.append(
            Column(
                name,
                "category",
                missing=len(texts) < len(series),
                categories=tuple(map(str, values)),
                shares=tuple((counts / counts.sum()).tolist()),
            )
        )

    def _learn_date(self, name: str, series: Any) -> None:
        day_first = cells.day_first(series)
        self.notes += note_on_order(name, series, day_first)
        seconds = cells.seconds(series, day_first)
        self.notes += _note_on_unread(name, series, seconds, "dates")
        column = _number(name, seconds / DAY)
        time = seconds[np.isfinite(seconds)] % DAY
        self.columns.append(
            Column(
                name,
                "date",
                missing=column.missing,
                fill=column.fill,
                quantiles=column.quantiles,
                day_first=day_first,
                has_time=len(np.unique(time)) > 1,
            )
        )


def note_on_order(name: str, series: Any, day_first: bool | None) -> list[str]:
    """Return a note on dates whose day and month could be exchanged."""
    text = cells.ambiguous_date(series)
    order = "the day" if day_first else "the month"
    return [f"{name}: dates such as {text!r} are read with {order} first"] if text else []


def note_on_units(name: str, texts: list[str]) -> list[str]:
    """Return a note on a column in which some numbers have another unit than others: no unit changes a number."""
    units = cells.two_units(texts)
    return [f"{name}: {' and '.join(map(repr, units))} are read as numbers of one unit"] if units else []


def note_on_leading_zeros(name: str, texts: list[str]) -> list[str]:
    """Return a note on texts such as "01234", which are codes rather than numbers."""
    found = next((text for text in texts if LEADING_ZERO.fullmatch(text)), None)
    return [f"{name}: {found!r} is read as a number; put a letter before each if these are codes"] if found else []


def note_on_stand_ins(name: str, numbers: np.ndarray) -> list[str]:
    """Return a note on a number such as -999 in several rows that lies farther from all others than these from each other."""
    known = numbers[np.isfinite(numbers)]
    notes = []
    for number in np.unique([known.min(initial=np.inf), known.max(initial=-np.inf)]):
        others, rows = known[known != number], int((known == number).sum())
        if rows > 1 and len(others) and cells.STAND_IN.fullmatch(cells.shown(number)):
            low, high = others.min(), others.max()
            if max(low - number, number - high) > high - low:
                notes.append(
                    f"{name}: {cells.shown(number)} in {rows} rows is far from all others ({low:.4g} to {high:.4g}); "
                    "make these cells gaps if it stands for one"
                )
    return notes


def note_on_dates_of_digits(name: str, numbers: np.ndarray) -> list[str]:
    """Return a note on numbers that are all dates such as 20201231."""
    known = numbers[np.isfinite(numbers)]
    years, rest = np.divmod(known, 10_000)
    months, days = np.divmod(rest, 100)
    ranges = ((years, 1900, 2100), (months, 1, 12), (days, 1, 31))
    if not len(known) or not all(((low <= part) & (part <= high)).all() for part, low, high in ranges):
        return []
    text = cells.shown(known[0])
    written = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    return [f"{name}: {text} is read as a number; write it as {written} if these are dates"]


def _note_on_unread(name: str, series: Any, numbers: np.ndarray, kind: str) -> list[str]:
    """Return a note on the texts of a column that were not read as numbers or dates."""
    odd = _unread(series, numbers)
    return [f"{name}: {', '.join(map(repr, odd[:3]))} cannot be read as {kind} and count as missing"] if odd else []


def _unread(series: Any, numbers: np.ndarray) -> list[str]:
    """Return the different texts of a column that were not read as numbers or dates."""
    pairs = zip(cells.texts(series), numbers, strict=True)
    return sorted({text for text, number in pairs if text is not None and not np.isfinite(number)})


def _level(fill: int, column: int) -> float:
    """Return the level of a fill in a column: the levels are spread evenly, in an order of the column's own."""
    order = np.random.default_rng(column).permutation(FILLS)
    return float((order[fill] + 0.5) / FILLS)


def _encode_number(column: Column, values: Any, draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    if len(rows := np.flatnonzero(cells.infinite(values))):
        raise ValueError(
            f"column {column.name!r} is infinite in row {rows[0]}: give a number, or NaN where one is missing"
        )
    numbers, unseen = _filled(column, numbers_of(column, values), draw)
    return np.stack(numbers, axis=1), unseen


def _encode_date(column: Column, values: Any, draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    (days, *flags), unseen = _filled(column, numbers_of(column, values), draw)
    turns = [days * DAY / YEAR, (days + 3) / 7, *([days] if column.has_time else [])]  # 1970 began on a Thursday
    parts = [wave(2 * np.pi * turn) for turn in turns for wave in (np.sin, np.cos)]
    return np.stack([days, *parts, *flags], axis=1), unseen


def _encode_category(column: Column, values: Any, draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """Encode one-hot: a missing category is all zeros.

    One that was never seen, or is missing although none was in the fitted table, is drawn from those that were seen.
    """
    texts = cells.texts(values)
    place = {category: k for k, category in enumerate(column.categories)}
    index = np.array([-1 if text is None else place.get(text, -2) for text in texts], dtype=np.int64)
    unseen = index == -2 if column.missing else index < 0
    cumulative = np.cumsum(column.shares)
    index[unseen] = np.searchsorted(cumulative / cumulative[-1], draw(int(unseen.sum())), side="right")
    one_hot = np.zeros((len(index), len(column.categories)))
    known = index >= 0
    one_hot[np.flatnonzero(known), index[known]] = 1.0
    return one_hot, unseen


_ENCODERS = {"number": _encode_number, "date": _encode_date, "category": _encode_category}


def numbers_of(column: Column, values: Any) -> np.ndarray:
    """Return the values of a column of numbers, or the days of one of dates; NaN where there is none."""
    if column.kind == "date":
        return cells.seconds(values, column.day_first) / DAY
    if (column.quantiles[0], column.quantiles[-1]) == (0.0, 1.0) and not isinstance(values, np.ndarray):
        values = cells.truth_values(values)
    return cells.floats(values)


def _end(column: Column, value: float) -> str:
    """Return one end of a column's range as text."""
    return str(np.datetime64(int(value), "D")) if column.kind == "date" else f"{value:.4g}"


def _filled(column: Column, numbers: np.ndarray, draw: Draw) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the numbers without gaps, with a column that marks them if there were any in the table of the fit."""
    gaps = ~np.isfinite(numbers)
    if column.missing:
        return [np.where(gaps, column.fill, numbers), gaps.astype(np.float64)], np.zeros(len(gaps), dtype=bool)
    drawn = np.interp(draw(len(gaps)), QUANTILES, column.quantiles)
    return [np.where(gaps, drawn, numbers)], gaps


def _number(name: str, values: Any) -> Column:
    numbers = cells.floats(values)
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        known = np.zeros(1)
    quantiles = tuple(np.quantile(known, QUANTILES).tolist())
    return Column(name, "number", missing=len(known) < len(numbers), fill=float(known.mean()), quantiles=quantiles)


def differ_in_case(categories: list[str]) -> list[list[str]]:
    """Return the groups of categories that are the same but for upper and lower case."""
    groups: dict[str, list[str]] = {}
    for category in categories:
        groups.setdefault(category.casefold(), []).append(category)
    return [group for group in groups.values() if len(group) > 1]


def _id_reason(name: str, known: Any, first: bool) -> str:
    """Return why numbers look like an id: all differ under the name of one, or they count the rows in the first column; or ""."""
    import pandas as pd

    if not pd.api.types.is_integer_dtype(known) and not bool((known == known.round()).all()):
        return ""
    if known.nunique() < len(known) or len(known) < 20:
        return ""
    if ID_NAME.search(name):
        return NAMED_ID
    return COUNTED_ID if first and _counts_rows(known) else ""


def _counts_rows(known: Any) -> bool:
    """Return True for numbers that count the rows from about 1 on, also if some of these rows are left out or shuffled.

    The labels of rows are their places, which may skip blank lines of a file. A column that counts from far away, such as years
    from 1950 on, may matter.
    """
    import pandas as pd

    labels = known.index if pd.api.types.is_integer_dtype(known.index) else range(len(known))
    order = np.argsort(labels)
    places, numbers = np.asarray(labels)[order], known.to_numpy()[order]
    steps = np.diff(numbers)
    near = abs(float(numbers[0] - places[0])) <= NEAR_ONE
    return near and bool(((steps >= 1) & (steps <= np.diff(places))).all())
