"""Tables of mixed columns: what is made of each, what is left out and why, and values that were never seen."""

import json

import numpy as np
import pandas as pd
import pytest

from vadam.estimators import cells
from vadam.estimators.encoding import TableEncoder

N = 60


def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(N) + 100,
            "age": np.where(np.arange(N) % 9 == 0, np.nan, random.normal(40, 10, N)),
            "city": random.choice(["a", "b", "c"], N),
            "when": pd.date_range("2020-01-01", periods=N, freq="17h").strftime("%d/%m/%Y %H:%M"),
            "price": [f"$1,2{k:02d}" for k in range(N - 1)] + ["n/k"],
            "comment": [f"text {k}" for k in range(N)],
            "constant": 3,
            "flag": random.random(N) < 0.5,
            "kind": pd.Categorical(random.choice(["x", "y"], N)),
            "empty": None,
            "day": pd.date_range("2021-01-01", periods=N),
        }
    )


def test_every_kind_of_column():
    encoder = TableEncoder().fit(frame())
    kinds = {column.name: column.kind for column in encoder.columns}
    assert kinds == {
        "age": "number",
        "city": "category",
        "when": "date",
        "price": "number",
        "flag": "number",
        "kind": "category",
        "day": "date",
    }
    assert set(encoder.left_out) == {"id", "comment", "constant", "empty"}
    assert encoder.notes == [
        "when: dates such as '02/01/2020 10:00' are read with the day first",
        "price: 'n/k' cannot be read as numbers and count as missing",
    ]
    encoded = encoder.encode(frame())
    assert encoded.values.shape == (N, len(encoder.outputs))
    assert np.isfinite(encoded.values).all()
    assert not encoded.unseen.any()
    by_name = dict(zip(encoder.outputs, encoded.values.T, strict=True))
    np.testing.assert_array_equal(by_name["age is missing"], (np.arange(N) % 9 == 0).astype(float))
    assert by_name["price"][0] == 1200.0
    assert by_name["city=a"] + by_name["city=b"] + by_name["city=c"] == pytest.approx(np.ones(N))
    np.testing.assert_allclose(np.diff(by_name["when"]), 17 / 24, atol=1e-9)
    np.testing.assert_allclose(by_name["sine of week of day"][:7], by_name["sine of week of day"][7:14], atol=1e-9)
    assert "sine of day of day" not in by_name  # no time of day


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12 345.5", 12345.5),
        ("1\u00a0234\u00a0567", 1234567),
        ("12\u202f345", 12345),
        ("-1'234.5", -1234.5),
        ("1’234", 1234),
        ("12,34,567.5", 1234567.5),
        ("\u22125.25", -5.25),
        ("-$1,234.5", -1234.5),
        ("₹ 1,00,000", 100000),
        ("1 234'567", np.nan),
        ("12 34", np.nan),
        ("0 123", np.nan),
        ("12 345,67", np.nan),  # a decimal comma is for the command line, which sees the whole file
        ("1234,567", np.nan),
    ],
)
def test_numbers_with_signs_between_thousands_are_read(text: str, number: float):
    """Spaces, apostrophes, Indian groups and a typographic minus made text of a column, which was left out."""
    np.testing.assert_array_equal(cells.floats(pd.Series([text, "7"])), [number, 7])


@pytest.mark.parametrize("rows", [slice(None), slice(3, None, 2), np.random.default_rng(0).permutation(N)])
@pytest.mark.parametrize(("start", "is_id"), [(0, True), (1, True), (1950, False)])
def test_a_first_column_that_counts_rows_is_an_id_also_in_a_part_of_them(rows, start: int, is_id: bool):
    table = pd.DataFrame({"n": np.arange(N) + start, "x": np.random.default_rng(0).normal(size=N)})
    assert ("n" in TableEncoder().fit(table.iloc[rows]).left_out) == is_id


@pytest.mark.parametrize(
    ("name", "is_id"), [("Kundennr", True), ("Rechnungsnummer", True), ("lfd", True), ("inner", False)]
)
def test_whole_numbers_under_the_name_of_an_id_are_left_out(name: str, is_id: bool):
    random = np.random.default_rng(0)
    table = pd.DataFrame({"x": random.normal(size=N), name: random.permutation(N) + 500})
    assert (name in TableEncoder().fit(table).left_out) == is_id


def test_ids_of_digits_are_ids_also_as_texts():
    """In a parquet file "0001" is a text, in a .csv a number."""
    table = pd.DataFrame({"id": [f"{k:04d}" for k in range(N)], "x": np.random.default_rng(0).normal(size=N)})
    for kind in ("object", "str", "string"):
        assert list(TableEncoder().fit(table.astype({"id": kind})).left_out) == ["id"]


def test_the_encoder_is_json():
    encoder = TableEncoder().fit(frame())
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.as_dict())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(frame()).values, encoder.encode(frame()).values)
    with pytest.raises(ValueError, match="unknown kind of column 'picture'"):
        TableEncoder.from_dict({"columns": [{"name": "a", "kind": "picture"}], "left_out": {}, "notes": []})


def test_values_that_were_never_seen_are_drawn_from_those_that_were():
    encoder, new = TableEncoder().fit(frame()), frame().head(3)
    new.loc[0, "city"] = "elsewhere"
    new.loc[1, "day"] = pd.NaT
    new.loc[2, "age"] = np.nan  # was missing in training too, so there is a column for it
    first, second = (encoder.encode(new, np.random.default_rng(seed)) for seed in (0, 5))
    assert first.unseen.tolist() == [True, True, False]
    place = [encoder.outputs.index(name) for name in ("city=a", "city=b", "city=c")]
    assert first.values[0, place].sum() == second.values[0, place].sum() == 1
    days = encoder.outputs.index("day")
    assert first.values[1, days] != second.values[1, days]
    assert encoder.unseen_values(new) == {"city": ["elsewhere"]}


def test_a_gap_where_there_was_none_is_drawn_also_among_categories():
    complete, gappy = frame(), frame()
    gappy.loc[::10, "city"] = None
    new = frame().head(2)
    new.loc[0, "city"] = None
    for table, unseen in ((complete, [True, False]), (gappy, [False, False])):
        encoder = TableEncoder().fit(table)
        encoded = encoder.encode(new)
        assert encoded.unseen.tolist() == unseen
        place = [encoder.outputs.index(name) for name in ("city=a", "city=b", "city=c")]
        assert encoded.values[0, place].sum() == unseen[0]  # one of them, or none
        assert TableEncoder.from_dict(encoder.as_dict()) == encoder


def test_arrays_of_numbers_with_gaps():
    X = np.array([[1.0, 2.0], [np.nan, 4.0], [3.0, 6.0]])
    encoder = TableEncoder().fit(X)
    assert encoder.outputs == ["x0", "x0 is missing", "x1"]
    np.testing.assert_array_equal(encoder.encode(X).values, [[1, 0, 2], [2, 1, 4], [3, 0, 6]])


@pytest.mark.parametrize("text", ["2021-03-04", "04.03.2021", "2021/03/04"])
def test_days_are_read_as_people_write_them(text):
    table = pd.DataFrame({"d": [text, "2022-01-01"] * 5, "x": range(10)})
    encoder = TableEncoder().fit(table)
    days = encoder.encode(table).values[:, encoder.outputs.index("d")]
    assert days[0] == (pd.Timestamp("2021-03-04") - pd.Timestamp(0)).days


@pytest.mark.parametrize("text", ["1990-01", "Jan 1990", "January 1990", "1 Jan 1990", "1-Jan-1990", "Jan 1, 1990"])
def test_months_are_dates(text):
    table = pd.DataFrame({"when": [text, text.replace("1990", "1991")] * 30})
    days = TableEncoder().fit(table).encode(table).values[:, 0]
    assert days[:2].tolist() == [7305.0, 7670.0]  # days from 1970 to 1990 and 1991, five leap years between


def test_words_that_begin_like_a_month_are_categories():
    table = pd.DataFrame({"team": ["Marketing 2020", "Decor 2021"] * 30})
    assert TableEncoder().fit(table).columns[0].kind == "category"


def test_nested_values_are_left_out():
    table = pd.DataFrame({"x": np.arange(3.0), "tags": [["a"], ["b", "c"], None], "meta": [{"k": 1}, {}, {}]})
    encoder = TableEncoder().fit(table)
    assert set(encoder.left_out) == {"tags", "meta"}
    assert encoder.encode(table).values.shape == (3, 1)


@pytest.mark.parametrize("value", ["yes", 1.0, True, pd.Timestamp("2020-01-01"), "12 %"])
def test_a_column_of_one_value_and_gaps_says_where_it_has_one(value):
    has = np.arange(20) % 3 == 0
    table = pd.DataFrame(
        {"x": np.sin(np.arange(20.0)), "promo": np.where(has, pd.Series([value] * 20, dtype=object), None)}
    )
    encoder = TableEncoder().fit(table.infer_objects())
    assert encoder.left_out == {}
    says = encoder.encode(table.infer_objects()).values[:, -1]
    assert abs(np.corrcoef(says, has)[0, 1]) == pytest.approx(1.0)
    whole = TableEncoder().fit(table[has])
    assert list(whole.left_out) == ["promo"]


def test_huge_numbers_can_be_computed_with():
    table = pd.DataFrame({"x": 10.0 ** np.arange(0, 300, 5), "note": ["one\ntwo " * 20] * 60})
    encoder = TableEncoder().fit(table)
    values = encoder.encode(table).values
    assert np.isfinite(values.std(0)).all()
    assert encoder.left_out["note"] == f"it is always {('one two ' * 20)[:40]}…"


@pytest.mark.parametrize("learned", ["25.12.2021", "12/25/2021", "2021-12-25"])
@pytest.mark.parametrize("written", ["2022-12-03", "20221203", "03.12.2022", "2022-12-03 00:00"])
def test_dates_that_can_be_read_in_one_way_only_are_read_so(learned: str, written: str):
    """Whatever the column was learned from, a date with the year first or with dots is one day."""
    table = pd.DataFrame({"d": [learned, learned.replace("25", "26")] * 5, "x": range(10)})
    encoder = TableEncoder().fit(table)
    new = pd.DataFrame({"d": [written, learned], "x": [1, 2]})
    days = encoder.encode(new).values[0, encoder.outputs.index("d")]
    assert days == (pd.Timestamp("2022-12-03") - pd.Timestamp(0)).days


DAYS = ["9999-12-31", "2020-01-01", "0001-01-01", None]


def as_arrow(kind: str) -> pd.Series:
    pyarrow = pytest.importorskip("pyarrow")
    moments = pd.Series(pd.to_datetime([*DAYS[1:2], "2021-03-04", "1999-05-06", None]))
    if kind == "date32":
        return pd.Series(moments.dt.date).astype(pd.ArrowDtype(pyarrow.date32()))
    return moments.astype(pd.ArrowDtype(pyarrow.timestamp("us", tz="UTC" if kind == "with zone" else None)))


@pytest.mark.parametrize("unit", ["text", "s", "us"])
def test_days_that_nanoseconds_cannot_hold(unit: str):
    """A date of 9999-12-31 says "never" in many tables."""
    days = pd.Series(DAYS * 5, dtype=object) if unit == "text" else pd.Series(np.array(DAYS * 5, dtype=f"M8[{unit}]"))
    encoder = TableEncoder().fit(pd.DataFrame({"day": days}))
    (column,) = encoder.columns
    assert (column.kind, column.missing) == ("date", True)
    expected = np.array(DAYS[:3], dtype="M8[D]").astype(float)
    np.testing.assert_array_equal(encoder.encode(pd.DataFrame({"day": days})).values[:3, 0], expected)
    assert encoder.outside(pd.DataFrame({"day": days})) == {}


@pytest.mark.parametrize("kind", ["naive", "with zone", "date32"])
def test_arrow_dates_are_dates(kind: str):
    days = as_arrow(kind)
    encoder = TableEncoder().fit(pd.DataFrame({"day": days}))
    plain = pd.to_datetime(pd.Series([None if pd.isna(day) else str(day)[:10] for day in days]))
    assert encoder.columns == TableEncoder().fit(pd.DataFrame({"day": plain})).columns
    np.testing.assert_array_equal(
        encoder.encode(pd.DataFrame({"day": days})).values, encoder.encode(pd.DataFrame({"day": plain})).values
    )


@pytest.mark.parametrize(
    "kind", ["timedelta64[s]", "timedelta64[ms]", "timedelta64[ns]", "duration[ns][pyarrow]", "object"]
)
def test_durations_are_seconds_in_every_unit(kind: str):
    hours = pd.Series(pd.to_timedelta([None, *range(1, N)], unit="h"))
    encoder = TableEncoder().fit(pd.DataFrame({"took": hours}))
    assert encoder.columns[0].quantiles[-1] == 3600.0 * (N - 1)
    assert encoder.columns[0].missing
    encoded = encoder.encode(pd.DataFrame({"took": hours.astype(kind)}))
    np.testing.assert_allclose(encoded.values[1:, 0], 3600.0 * np.arange(1, N))
    np.testing.assert_array_equal(encoded.values[:, 1], np.arange(N) == 0)


def test_periods_are_the_dates_of_their_beginning():
    months = pd.period_range("2020-01", periods=N, freq="M")
    encoder = TableEncoder().fit(pd.DataFrame({"month": [pd.NaT, *months[1:]]}, dtype=months.dtype))
    assert encoder.columns[0].kind == "date"
    assert encoder.columns[0].missing
    expected = (months.to_timestamp() - pd.Timestamp(0)).days
    for same in (months, months.astype(str), months.to_timestamp(), months.astype("object")):
        np.testing.assert_allclose(encoder.encode(pd.DataFrame({"month": same})).values[:, 0], expected)


def test_dates_in_a_column_of_numbers_are_no_numbers():
    encoder = TableEncoder().fit(pd.DataFrame({"size": np.arange(N) / 7}))
    encoded = encoder.encode(pd.DataFrame({"size": pd.date_range("2020-01-01", periods=3)}))
    assert encoded.unseen.all()
    assert encoded.values.max() <= N / 7


@pytest.mark.parametrize(
    "cell", ["10:30", "now", "today", "May", "2020Q1", "31/12/20", "12/25/2020", 44197, 2020, 20200199, np.nan, True]
)
def test_what_is_no_date_is_missing_among_dates(cell):
    """pandas reads "10:30" and "now" as today, 44197 as microseconds after 1970, and exchanges day and month in 12/25."""
    encoder = TableEncoder().fit(pd.DataFrame({"d": ["25/12/2020", "26/12/2020"] * 10}))
    new = pd.DataFrame({"d": ["25/12/2020", cell]}, dtype=object)
    assert encoder.encode(new).unseen.tolist() == [False, True]
    assert encoder.encode(pd.DataFrame({"d": [cell]})).unseen.tolist() == [True]
    gaps = TableEncoder().fit(pd.DataFrame({"d": ["25/12/2020", "26/12/2020"] * 10 + [cell]}))
    assert gaps.columns[0].missing
    unread = f"d: {str(cell)!r} cannot be read as dates and count as missing"
    assert gaps.notes == ([] if cell is np.nan else [unread])


@pytest.mark.parametrize("cell", ["20201225", 20201225, 20201225.0, "2020-12-25T00:00Z", "2020-12-25 02:00+02:00"])
def test_a_date_alone_is_that_beside_others(cell):
    """A file in which all days are eight digits holds numbers."""
    encoder = TableEncoder().fit(pd.DataFrame({"d": ["25/12/2020", "26/12/2020"] * 10}))
    expected = encoder.encode(pd.DataFrame({"d": ["25/12/2020"]})).values
    np.testing.assert_array_equal(encoder.encode(pd.DataFrame({"d": [cell]})).values, expected)


def test_lists_of_arrow_are_left_out():
    pa = pytest.importorskip("pyarrow")
    table = pd.DataFrame({"size": np.arange(N) / 7})
    table["words"] = pd.Series([["a"], ["b"]] * (N // 2), dtype=pd.ArrowDtype(pa.list_(pa.string())))
    assert "lists or dictionaries" in TableEncoder().fit(table).left_out["words"]


def test_signs_beside_numbers_stand_on_both_sides():
    """A column of "722.99 €" was left out as text."""
    texts = ["$5", "722.99 €", "€ 1,200.50", "12 %", "7\u00a0€"]
    assert cells.floats(pd.Series(texts)).tolist() == [5.0, 722.99, 1200.5, 12.0, 7.0]


@pytest.mark.parametrize(
    ("texts", "pair"),
    [
        (["5 %", "0.07", "8%"], "'5 %' and '0.07'"),
        (["7", "$5", "€ 7"], "'$5' and '€ 7'"),
        (["5", "$7", None], None),
        (["5%", "7 %", None], None),
    ],
)
def test_units_that_differ_in_a_column_are_named(texts: list[str | None], pair: str | None):
    encoder = TableEncoder().fit(pd.DataFrame({"x": texts}))
    assert encoder.columns[0].kind == "number"
    assert encoder.notes == ([] if pair is None else [f"x: {pair} are read as numbers of one unit"])


def test_truth_values_are_known_beside_other_words():
    encoder = TableEncoder().fit(pd.DataFrame({"flag": [True, False] * 30}))
    written = encoder.encode(pd.DataFrame({"flag": ["True", "FALSE", "maybe", None]}))
    assert written.values[:2, 0].tolist() == [1.0, 0.0]
    assert written.unseen.tolist() == [False, False, True, True]


def test_a_month_that_cannot_be_one_puts_the_day_first():
    table = pd.DataFrame({"d": ["04/03/2021", "25/12/2021"] * 5, "x": range(10)})
    encoder = TableEncoder().fit(table)
    assert (
        encoder.encode(table).values[0, encoder.outputs.index("d")]
        == (pd.Timestamp("2021-03-04") - pd.Timestamp(0)).days
    )


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            pd.DataFrame({"a": [1, 1], "b": ["x", "x"]}),
            r"no column to learn from \(a: it is always 1; b: it is always x\)",
        ),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "several columns named 'a'"),
    ],
)
def test_tables_without_anything_to_learn_from(table, says):
    with pytest.raises(ValueError, match=says):
        TableEncoder().fit(table)


def test_a_missing_column_is_named():
    encoder = TableEncoder().fit(frame())
    with pytest.raises(ValueError, match="no column 'city', which the model was fitted with"):
        encoder.encode(frame().drop(columns="city"))


def test_categories_that_differ_only_in_case_are_named() -> None:
    table = pd.DataFrame({"answer": ["yes", "Yes ", "YES", "no"] * 10, "city": ["Lagos", "Paris"] * 20})
    encoder = TableEncoder().fit(table)
    assert encoder.notes == [
        "answer: 'YES', 'Yes', 'yes' are different categories; write them alike if they mean the same"
    ]
    many = pd.DataFrame({"code": [text for letter in "abcdef" for text in (letter, letter.upper())] * 10})
    assert len(TableEncoder().fit(many).notes) == 3


@pytest.mark.parametrize(
    ("texts", "notes"),
    [
        (["13/04/2020", "03/04/2020", "2020-01-01"], ["sold: dates such as '03/04/2020' are read with the day first"]),
        (["12/31/2020", "03/03/2020", "4-3-2020"], ["sold: dates such as '4-3-2020' are read with the month first"]),
        (["31.12.2020", "03.04.2020", "2020-05-06"], []),
        (["12/31/2020", "11/30/2020", None], []),
    ],
)
def test_the_order_of_day_and_month_is_said_where_it_matters(texts: list[str | None], notes: list[str]) -> None:
    assert TableEncoder().fit(pd.DataFrame({"sold": texts * 10, "x": range(30)})).notes == notes


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([21.5, -999, 19.0, -999, 22.5], "-999 in 2 rows is far from all others (19 to 22.5)"),
        ([3, 9999, 5, 4, 9999, 9999], "9999 in 3 rows is far from all others (3 to 5)"),
        ([21.5, -999, 19.0, 20.0, 22.5], None),  # one row may be a mistake
        ([99, 18, 80, 99, 64], None),
        ([998, 999, 997, 999, 5], None),
        ([1, 2, 3, 2000, 2000], None),
    ],
)
@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
def test_a_number_that_stands_for_a_gap_is_named(kind, numbers: list[float], said: str | None) -> None:
    """Temperatures of -999 set the scale of a column without a word."""
    encoder = TableEncoder().fit(kind(np.array(numbers, dtype=float)[:, None]))
    name = "0" if kind is pd.DataFrame else "x0"
    assert encoder.notes == ([] if said is None else [f"{name}: {said}; make these cells gaps if it stands for one"])


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        (["10:30", "9:05", "10:30:15"], "times of the day such as '10:30' are read as texts; turn them into hours"),
        (
            ["03/04/21", "3.4.21", "31-12-99 10:30"],
            "dates with years of two digits such as '03/04/21' are read as texts; write the years in full",
        ),
        (["01234", "98765", "20001"], "'01234' is read as a number; put a letter before each if these are codes"),
        (["20201231", "20210101", None], "20201231 is read as a number; write it as 2020-12-31 if these are dates"),
        (["20201231", "20201301", None], None),
        (["1234", "0", "0.5"], None),
        (["1:2 mixed", "a", "b"], None),
    ],
)
def test_texts_that_may_mean_something_else_are_named(texts: list[str], note: str | None) -> None:
    """Times of the day and short dates became categories or were left out, and codes became numbers, without a word."""
    encoder = TableEncoder().fit(pd.DataFrame({"t": texts * 10, "x": range(30)}))
    assert encoder.notes == ([] if note is None else [f"t: {note}"])


@pytest.mark.parametrize(
    "text", ["1/2/2020 1:30 PM", "2020-01-02 1:30pm", "2 Jan 2020 01:30 PM", "Jan 2, 2020 1:30 pm"]
)
def test_times_behind_dates_may_be_of_twelve_hours(text: str) -> None:
    """A column of "1/2/2020 1:30 PM" was text."""
    table = pd.DataFrame({"when": [text, text.replace("30", "15").replace("pm", "am").replace("PM", "AM")] * 10})
    column = TableEncoder().fit(table).columns[0]
    assert (column.kind, column.has_time) == ("date", True)
    np.testing.assert_allclose(np.diff(np.unique(cells.seconds(table["when"], False))), [12.25 * 3600])


def test_a_letter_with_an_accent_is_one_category_in_both_ways_to_write_it() -> None:
    """A table written on a Mac had only unseen categories for a model fitted elsewhere."""
    encoder = TableEncoder().fit(pd.DataFrame({"city": ["Z\u00fcrich", "Z\u0075\u0308rich", "Bern"] * 10}))
    assert encoder.columns[0].categories == ("Bern", "Z\u00fcrich")
    new = pd.DataFrame({"city": ["Zu\u0308rich"]})
    assert encoder.unseen_values(new) == {}
    np.testing.assert_array_equal(encoder.encode(new).values, [[0.0, 1.0]])
