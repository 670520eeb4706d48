"""Odd tables for ``vadam fit`` and ``vadam predict``, and odd options: an answer, or a refusal in words that writes nothing."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from torture.case import Case, Failed, Outcome
from torture.fuzzing import fuzz

OLD = b"what was there before"
NAMES = st.one_of(
    st.sampled_from(
        (
            "a",
            "b",
            "price",
            "",
            " ",
            "y",
            "<b>x</b>",
            "$x_{$",
            "a,b",
            'quo"te',
            "ñ",
            "=1+1",
            "mean",
            "std",
            "row",
            "low_90",
            "1",
            "Unnamed: 0",
        )
    ),
    st.text(max_size=6),
)
CELLS = {
    "number": st.floats(-100, 100).map(lambda x: f"{x:.3g}"),
    "any number": st.floats().map(str),
    "count": st.integers(0, 5).map(str),
    "id": st.integers(0, 10**6).map(str),
    "word": st.sampled_from(("red", "green", "blue", "Red ", "", "NA", "?")),
    "text": st.text(max_size=8),
    "date": st.dates().map(str),
    "gap": st.sampled_from(("", "1.5", "2", "NaN", "-")),
    "comma": st.integers(-99, 99).map(lambda k: f"{k},5"),
    "same": st.just("1"),
    "huge": st.sampled_from(("1e308", "-1e308", "1e400", "0", "inf", "9" * 30)),
    "truth": st.sampled_from(("True", "False", "yes", "no")),
}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    columns = draw(st.sampled_from((1, 2, 3, 3, 4)))
    kinds = draw(st.lists(st.sampled_from([*CELLS]), min_size=columns, max_size=columns))
    kinds[-1] = draw(st.sampled_from(("number", "count", "word", kinds[-1])))
    names = draw(st.lists(NAMES, min_size=columns, max_size=columns))
    if draw(st.integers(0, 3)):
        names = [f"c{k}" for k in range(columns - 1)] + ["y"]
    rows = draw(st.sampled_from((0, 9, 20, 20, 20, 20, 20)))
    cells = [[draw(CELLS[kind]) for kind in kinds] for _ in range(rows)]
    return {
        "names": names,
        "cells": cells,
        "separator": draw(st.sampled_from((",", ",", ";", "|", "\t"))),
        "end": draw(st.sampled_from(("\n", "\r\n"))),
        "encoding": draw(st.sampled_from(("utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16"))),
        "suffix": draw(st.sampled_from((".csv", ".csv", ".csv", ".csv", ".csv", ".tsv", ".txt", ".xlsx", ".parquet"))),
        "index": draw(st.sampled_from(("none", "text", "date", "pair", "named"))),  # of a parquet file
        "quoted": draw(st.booleans()),
        "ragged": draw(st.sampled_from((False, False, False, True))),
        "target": draw(st.sampled_from((*[names[-1]] * 6, names[0], "no such column"))),
        "task": draw(st.sampled_from(("auto", "auto", "regression", "classification"))),
    }


def write_parquet(table: dict[str, Any], path: Path) -> None:
    """Write the table with an index, its columns as numbers, durations or dates where all cells are."""
    import pandas as pd

    frame = pd.DataFrame(table["cells"], columns=table["names"])
    for name in frame if frame.columns.is_unique else ():
        for convert in (pd.to_numeric, lambda column: pd.to_timedelta(column + " h"), pd.to_datetime):
            try:
                frame[name] = convert(frame[name])
                break
            except (ValueError, TypeError, OverflowError, pd.errors.OutOfBoundsDatetime):
                continue
    texts, dates = pd.Index([f"r{k}" for k in range(len(frame))]), pd.date_range("2020-01-01", periods=len(frame))
    pair, named = pd.MultiIndex.from_arrays([texts, dates]), texts.rename("code")
    kinds = {"text": texts, "date": dates, "pair": pair, "named": named}
    frame.index = kinds.get(table["index"], frame.index)
    frame.to_parquet(path)


def write(table: dict[str, Any], folder: Path) -> Path:
    """Write the table as text, whatever its suffix says, or as parquet where its columns can be."""
    if table["suffix"] == ".parquet":
        import pyarrow as pa

        path = folder / "table.parquet"
        try:
            write_parquet(table, path)
            return path
        except (ValueError, TypeError, pa.ArrowException):  # columns of one name
            pass

    def shown(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"' if table["quoted"] else cell

    lines = [table["separator"].join(map(shown, row)) for row in (table["names"], *table["cells"])]
    if table["ragged"]:
        lines = [line + table["separator"] * (k % 3) for k, line in enumerate(lines)]
    path = folder / f"table{table['suffix']}"
    path.write_bytes(table["end"].join([*lines, ""]).encode(table["encoding"], errors="replace"))
    return path


def command(*words: object) -> tuple[int, dict[str, Any]]:
    """Run a command with --json; return its exit code and answer, raise if it ends in a traceback."""
    from typer.testing import CliRunner

    from vadam.cli.app import app

    result = CliRunner().invoke(app, [*map(str, words), "--json"], env={"COLUMNS": "1000"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        import traceback

        trace = "".join(traceback.format_exception(result.exception))[-1500:]
        raise Failed(f"vadam {' '.join(map(str, words))} ends in a traceback: {trace}")
    if result.exit_code == 2:
        return 2, {"error": result.output}
    return result.exit_code, json.loads(result.stdout[result.stdout.index("{") :])


def small_trainings() -> None:
    """Let ``vadam fit`` take a few steps: how long it trains is not what is tested."""
    from vadam.estimators import sizing

    sizing.STEPS = 20


def check_table(table: dict[str, Any], folder: Path) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path, out, page = write(table, folder), folder / "m.safetensors", folder / "m.html"
    out.write_bytes(OLD)
    page.write_bytes(OLD)
    code, answer = command(
        "fit", path, f"--target={table['target']}", "--task", table["task"], "--out", out, "--budget", 0, "--members", 1
    )
    if code:
        said = answer["error"]
        if len(said) < 10 or "Traceback" in said:
            raise Failed(f"{table} is refused without words: {said!r}")
        if out.read_bytes() != OLD or page.read_bytes() != OLD:
            raise Failed(f"{table} was refused, but a file was written")
        return "tables refused"
    for name, value in answer.items():
        if isinstance(value, float) and math.isnan(value):
            raise Failed(f"{table}: {name} is {value}")
    code, answer = command("predict", out, path, "--out", folder / "p.csv")
    if code:
        raise Failed(f"{table}: the fitted model cannot predict its own table: {answer['error']}")
    check_predictions(table, folder / "p.csv", answer)
    return "tables fitted"


def check_predictions(table: Any, path: Path, answer: dict[str, Any]) -> None:
    """Raise unless every row has finite predictions and an interval that is not inverted."""
    import numpy as np
    import pandas as pd

    found = pd.read_csv(path)
    if len(found) != answer["rows"]:
        raise Failed(f"{table}: {answer['rows']} rows are announced, {len(found)} written")
    if {"mean", "std", "low_90", "high_90"} <= set(found):
        numbers = found[["mean", "std", "low_90", "high_90"]].to_numpy(dtype=float)
        if not np.isfinite(numbers).all() or (numbers[:, 1] < 0).any() or (numbers[:, 2] > numbers[:, 3]).any():
            raise Failed(f"{table}: predictions that are not sound: {numbers[:3].tolist()}")


def tables_part(case: Case) -> Outcome:
    small_trainings()
    return fuzz(case, tables(), lambda table: check_table(table, case.folder / "work"), examples=10)


ODD_WORDS = st.one_of(
    st.sampled_from(
        (
            "",
            "0",
            "-1",
            "1",
            "2",
            "0.5",
            "nan",
            "inf",
            "1e400",
            "9" * 30,
            "x",
            "/",
            "/dev/null/x",
            ".",
            "auto",
            "vadam",
            "vogn",
            "__init__",
            "--",
            "ñ",
            "[red]",
        )
    ),
    st.text(max_size=6).filter(lambda text: "\x00" not in text),
)
OPTIONS = {
    "fit": (
        "--target",
        "--out",
        "--report",
        "--task",
        "--ignore",
        "--optimizer",
        "--budget",
        "--members",
        "--holdout",
        "--seed",
    ),
    "predict": ("--out", "--level"),
    "run": ("--preset", "--protocol", "--data", "--out", "--jobs", "--backend", "--scheduler"),
    "list": ("--results",),
    "report": ("--results", "--out"),
}


@st.composite
def calls(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from([*OPTIONS]))
    words = [name]
    if name in ("fit", "predict"):
        words += [
            draw(st.sampled_from(("TABLE", "NOTHING", "FOLDER", "MODEL"))) for _ in range(1 + (name == "predict"))
        ]
    if name == "fit":
        words += ["--target=y", "--budget=0", "--members=1"]
    if name == "run":
        words += [draw(st.sampled_from(("theory", "no such", ""))), "--preset=smoke"]
    for option in draw(st.lists(st.sampled_from(OPTIONS[name]), min_size=1, max_size=2, unique=True)):
        words.append(f"{option}={draw(ODD_WORDS)}")
    return words


def check_call(words: list[str], folder: Path) -> str:
    import os

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    here = os.getcwd()
    rows = "".join(f"{k % 7},{k % 3},{k * 0.5}\n" for k in range(20))
    (folder / "table.csv").write_text("a,b,y\n" + rows)
    (folder / "folder").mkdir()
    (folder / "model").write_bytes(OLD)
    known = {"TABLE": "table.csv", "NOTHING": "nothing.csv", "FOLDER": "folder", "MODEL": "model"}
    os.chdir(folder)
    try:
        code, answer = (
            command(*(known.get(word, word) for word in words)) if words[0] != "list" else (listed(words), {})
        )
    finally:
        os.chdir(here)
    if code and len(answer.get("error", "a list has no error")) < 10:
        raise Failed(f"vadam {' '.join(words)} is refused without words: {answer}")
    return "commands refused" if code else "commands obeyed"


def listed(words: list[str]) -> int:
    from typer.testing import CliRunner

    from vadam.cli.app import app

    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Failed(f"vadam {' '.join(words)} ends in a traceback: {result.exception!r}")
    return result.exit_code


def calls_part(case: Case) -> Outcome:
    small_trainings()
    return fuzz(case, calls(), lambda words: check_call(words, case.folder / "work"), examples=20)


def warm() -> None:
    """Import what the commands need."""
    import matplotlib
    import pandas  # noqa: F401
    import sklearn.linear_model  # noqa: F401

    import vadam.cli.app
    import vadam.cli.fitting
    import vadam.estimators
    import vadam.report.model  # noqa: F401

    matplotlib.use("agg")
