"""The same table in other words: other formats of files and of numbers, order of rows and columns, a row alone, other units."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from torture.bad_tables import command, small_trainings
from torture.case import Case, Failed, Outcome
from torture.same_predictions import equal
from vadam.cli import dataframe
from vadam.estimators.encoding import TableEncoder

ROWS = 40
TARGET = "price"


@dataclass(frozen=True)
class Spelling:
    """Says how a table is written: the format of its file, and the look of its numbers."""

    suffix: str = ".csv"
    separator: str = ","
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"
    end: str = "\n"
    quoted: bool = False
    padded: bool = False  # a space on both sides of each cell
    sign: str = ""  # stands behind amounts of money
    title: bool = False
    gap: str = ""


SPELLINGS = {
    "plain": Spelling(),
    "quoted": Spelling(quoted=True),
    "tabs": Spelling(".tsv", "\t"),
    "semicolons": Spelling(separator=";"),
    "bars": Spelling(".txt", "|"),
    "Windows": Spelling(encoding="cp1252", end="\r\n"),
    "Excel's text": Spelling(".txt", "\t", encoding="utf-16"),
    "a mark of the byte order": Spelling(encoding="utf-8-sig"),
    "padded": Spelling(separator=";", padded=True),
    "a title": Spelling(title=True),
    "English thousands": Spelling(thousands=",", quoted=True),
    "English thousands between tabs": Spelling(".tsv", "\t", thousands=","),
    "dollars": Spelling(".tsv", "\t", thousands=",", sign="$"),
    "decimal commas": Spelling(separator=";", decimal=","),
    "decimal commas between tabs": Spelling(".tsv", "\t", decimal=","),
    "decimal commas in quotes": Spelling(decimal=",", quoted=True),
    "European thousands": Spelling(separator=";", decimal=",", thousands="."),
    "European thousands in quotes": Spelling(decimal=",", thousands=".", quoted=True),
    "euros": Spelling(separator=";", decimal=",", thousands=".", sign=" €"),
    "euros of Windows": Spelling(separator=";", decimal=",", thousands=".", sign=" €", encoding="cp1252", end="\r\n"),
    "gaps as NA": Spelling(gap="NA"),
    "gaps as dashes": Spelling(separator=";", gap="-"),
    "a sheet": Spelling(".xlsx"),
    "parquet": Spelling(".parquet"),
}


@dataclass(frozen=True)
class Column:
    """A column of a table as it is meant: numbers with so many decimals, money, or texts; None stands for a gap."""

    name: str
    values: list[Any]
    decimals: int = 0
    is_money: bool = False


def table(random: random.Random) -> list[Column]:
    """Return a table whose numbers have one meaning in each spelling: some have two decimals."""

    def some(draw: Callable[[], Any]) -> list[Any]:
        gaps = random.choice((0.0, 0.0, 0.1))
        return [None if random.random() < gaps else draw() for _ in range(ROWS)]

    towns = random.sample(["Århus", "Paris", "New York", "Köln", "Rome, old", "N"], 3)
    columns = [
        Column("size", [round(random.uniform(0.5, 99), 2) for _ in range(ROWS)], 2),
        Column("area", some(lambda: random.randrange(2, 20_000)), 0),
        Column("ratio", some(lambda: round(random.uniform(-1, 1), 3)), 3),
        Column("amount", some(lambda: round(random.uniform(5, 50_000), 2)), 2, is_money=True),
        Column("weight", some(lambda: round(random.uniform(1, 9), 3)), 3),
        Column("town", some(lambda: random.choice(towns))),
        Column(
            "built",
            some(lambda: f"20{random.randrange(10, 24)}-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}"),
        ),
        Column("paid", some(lambda: random.choice(("yes", "no")))),
    ]
    chosen = [columns[0], *random.sample(columns[1:], random.randrange(2, 6))]
    numbers = [3 * value + random.gauss(0, 5) for value in columns[0].values]
    target = random.choice(
        (
            Column(TARGET, [round(value, 2) for value in numbers], 2),
            Column(TARGET, [round(100 * value) for value in numbers]),
            Column(TARGET, ["high" if value > 150 else "low" for value in numbers]),
        )
    )
    random.shuffle(chosen)
    return [*chosen, target]


def spelled(column: Column, value: Any, how: Spelling) -> str:
    if value is None:
        return how.gap
    if isinstance(value, str):
        return value
    grouped = f"{value:,.{column.decimals}f}" if how.thousands else f"{value:.{column.decimals}f}"
    text = grouped.translate(str.maketrans({",": how.thousands, ".": how.decimal}))
    if not column.is_money or not how.sign:
        return text
    return how.sign + text if how.sign == "$" else text + how.sign


def write(columns: list[Column], how: Spelling, folder: Path, name: str) -> Path:
    """Write the table so, or as typed columns in a sheet or a parquet file."""
    path = folder / f"{name}{how.suffix}"
    if how.suffix in (".xlsx", ".parquet"):
        frame = pd.DataFrame({column.name: column.values for column in columns})
        frame.to_excel(path, index=False) if how.suffix == ".xlsx" else frame.to_parquet(path, index=False)
        return path
    lines = [[column.name for column in columns]]
    lines += [[spelled(column, column.values[row], how) for column in columns] for row in range(len(columns[0].values))]

    def cell(text: str) -> str:
        if how.quoted or how.separator in text:
            return f'"{text}"'
        return f" {text} " if how.padded else text

    texts = [how.separator.join(map(cell, line)) for line in lines]
    title = ["Sales of all shops", ""] if how.title else []
    path.write_bytes(how.end.join([*title, *texts, ""]).encode(how.encoding))
    return path


def encoded(frame: pd.DataFrame) -> tuple[list[str], np.ndarray]:
    """Return what the columns mean to a model: names and numbers."""
    encoder = TableEncoder().fit(frame.drop(columns=TARGET))
    return encoder.outputs, encoder.encode(frame.drop(columns=TARGET)).values


def check_read(columns: list[Column], path: Path, said: str) -> None:
    """Raise unless a file means to a model what is meant."""
    meant = pd.DataFrame({column.name: column.values for column in columns})
    found = dataframe.read(path, target=TARGET)
    names, numbers = encoded(found)
    expected_names, expected = encoded(meant)
    if names != expected_names:
        raise Failed(f"{said}: columns {names} instead of {expected_names}")
    equal(f"{said}: {names}", numbers, expected, 1e-12)


def of_rows(columns: list[Column], rows: list[int]) -> list[Column]:
    return [replace(column, values=[column.values[k] for k in rows]) for column in columns]


def predicted(model: Path, path: Path, folder: Path) -> pd.DataFrame:
    out = folder / "predictions.csv"
    code, answer = command("predict", model, path, "--out", out)
    if code:
        raise Failed(f"{path.name} of a fitted table cannot be predicted: {answer['error']}")
    found = pd.read_csv(out)
    numbers = [name for name in found if name in ("mean", "std", "low_90", "high_90") or name.startswith("p_")]
    return found[numbers]


PRICE_UNIT, AREA_UNIT = 0.001, 1e6


def in_other_units(columns: list[Column]) -> list[Column]:
    """Return the table with its area and its price, if that is a number, in other units."""
    units = {"area": AREA_UNIT, TARGET: PRICE_UNIT}

    def value(column: Column, known: Any) -> Any:
        return known if isinstance(known, str | None) else known * units[column.name]

    return [
        replace(column, values=[value(column, known) for known in column.values], decimals=6)
        if column.name in units
        else column
        for column in columns
    ]


def fitted(columns: list[Column], spelling: str, model: Path, case: Case) -> Path:
    """Fit a model to the table in this spelling; return the table's path."""
    path = write(columns, SPELLINGS[spelling], model.parent, "fitted")
    code, answer = command("fit", path, "--target", TARGET, "--out", model, "--budget", 0, "--members", 1)
    if code:
        raise Failed(f"the table of case {case.number} as {spelling} is refused: {answer['error']}")
    return path


def tables(case: Case) -> Outcome:
    """Read a table in every spelling, fit it in one of them, and predict it in others, in other orders and row by row."""
    small_trainings()
    found, random, folder = Outcome(), case.random, case.folder / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    columns = table(random)
    for name, how in SPELLINGS.items():
        check_read(columns, write(columns, how, folder, "read"), f"{name}, case {case.number}")
        found.add("answers")
        found.add("tables read")
    first, model = random.choice([*SPELLINGS]), folder / "m.safetensors"
    path = fitted(columns, first, model, case)
    expected = predicted(model, path, folder)
    for name, others in {"plain": columns, "other units": in_other_units(columns)}.items():
        other = predicted(folder / "o.safetensors", fitted(others, "plain", folder / "o.safetensors", case), folder)
        for column in expected:
            unit = PRICE_UNIT if name == "other units" and not column.startswith("p_") else 1
            said = f"fitted as {first} and as {name}, case {case.number}"
            equal(f"{said}: {column}", other[column] / unit, expected[column], 6e-3)  # of std three digits are written
        found.add("answers")
        found.add("tables fitted")
    inputs = [column for column in columns if column.name != TARGET]
    orders = {
        "all rows": [*range(ROWS)],
        "other order": random.sample(range(ROWS), ROWS),
        "a row alone": [random.randrange(ROWS)],
        "three rows": random.sample(range(ROWS), 3),
    }
    for name, rows in orders.items():
        for spelling in random.sample([*SPELLINGS], 3):
            shuffled = random.sample(inputs, len(inputs))
            if random.random() < 0.3:
                shuffled.append(Column("note", [f"n{k}" for k in range(ROWS)]))
            other = predicted(model, write(of_rows(shuffled, rows), SPELLINGS[spelling], folder, "other"), folder)
            said = f"{name}, fitted as {first} and predicted as {spelling}, case {case.number}"
            for column in expected:
                equal(f"{said}: {column}", other[column], expected[column].iloc[rows], 1e-4)
            found.add("answers")
            found.add(f"predictions of {name}")
    return found
