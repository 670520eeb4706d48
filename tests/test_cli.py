"""The command: what it prints, where it writes, how it fails."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow
import pytest
import typer
from pyarrow import parquet
from typer.testing import CliRunner, Result

import vadam
from vadam.cli import dataframe, evaluation, fitting, plugins, predicting, preparation
from vadam.cli.app import app
from vadam.cli.errors import CommandError
from vadam.cli.json_output import print_json
from vadam.cli.progress import bar
from vadam.cli.table import OPTIMIZERS
from vadam.estimators import VadamClassifier, VadamRegressor
from vadam.estimators.cells import floats
from vadam.estimators.encoding import Column, TableEncoder
from vadam.estimators.optimizers import optimizer_names
from vadam.report.html import four_digits
from vadam.report.model import ClassificationEvaluation, RegressionEvaluation


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def answer(*arguments: object) -> dict:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def written(table: pd.DataFrame, path: Path) -> Path:
    """Write a table in the format of the path's suffix."""
    formats = {".csv": table.to_csv, ".xlsx": table.to_excel}
    formats[path.suffix](path, index=False) if path.suffix in formats else table.to_parquet(path)
    return path


def test_help_names_every_command() -> None:
    text = call("--help").output
    for command in ("demo", "doctor", "fit", "predict", *plugins.PAPER_COMMANDS):
        assert f" {command} " in text
    assert "--install-completion" in text


def test_version() -> None:
    assert call("--version").output == f"vadam {vadam.__version__}\n"


def test_the_package_runs_as_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["vadam", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("vadam", run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out == f"vadam {vadam.__version__}\n"


def with_plugins(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> typer.Typer:
    """Return an app with its own command ``fit`` and these installed entry points."""
    monkeypatch.setattr(plugins, "entry_points", lambda group: [p for p in points if p.group == group])
    made = typer.Typer()
    made.command("fit")(lambda: typer.echo("the library's"))
    plugins.add_commands(made, taken={"fit"})
    return made


@pytest.mark.parametrize("command", ["list", "run", "reproduce", "report", "data"])
def test_without_the_paper_its_commands_say_what_installs_them(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = with_plugins(monkeypatch)
    for arguments in ([command], [command, "theory", "--preset", "smoke"], [command, "--help"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 1
        assert f"vadam {command} belongs to vadam-paper" in " ".join(result.output.split())
        assert "pip install ./paper" in " ".join(result.output.split())
    as_json = CliRunner().invoke(app, [command, "--json"])
    assert "pip install ./paper" in json.loads(as_json.stdout)["error"]
    shown = CliRunner().invoke(app, ["--help"]).output
    assert command in shown
    assert "not installed: pip install ./paper in a checkout" in shown


def test_a_plugin_adds_commands_and_groups_and_takes_none_away(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"version": "vadam.cli.app:_version", "tables": "vadam.cli.app:app", "fit": "vadam.cli.app:_version"}
    app = with_plugins(monkeypatch, *(EntryPoint(name, value, plugins.GROUP) for name, value in points.items()))
    assert CliRunner().invoke(app, ["version", "yes"]).output == f"vadam {vadam.__version__}\n"
    assert "--target" in CliRunner().invoke(app, ["tables", "fit", "--help"], env={"COLUMNS": "200"}).output
    assert CliRunner().invoke(app, ["fit"]).output == "the library's\n"


def test_a_broken_plugin_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    app = with_plugins(monkeypatch, EntryPoint("run", "nowhere_to_be_found:run", plugins.GROUP))
    result = CliRunner().invoke(app, ["run", "theory"])
    assert result.exit_code == 1
    assert "nowhere_to_be_found cannot be loaded (ModuleNotFoundError" in " ".join(result.output.split())
    assert CliRunner().invoke(app, ["fit"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("predict", "none.safetensors", "none.csv"), "There is no model none.safetensors: check the path."),
        (("fit", "none.csv", "--target", "y"), "There is no file none.csv: check the path."),
        (("fit", "none.csv", "--target", "y", "--decimal", ";"), "--decimal must be . or , and not ;."),
    ],
)
def test_user_errors_are_explained(arguments: tuple[str, ...], says: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 1
    assert says in " ".join(result.output.split())
    assert "Traceback" not in result.output
    as_json = call(*arguments, "--json")
    assert as_json.exit_code == 1
    assert says in json.loads(as_json.stdout)["error"]


def test_without_a_terminal_progress_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("vadam.cli.progress.time.monotonic", lambda: now[0])
    with bar("uci · best") as move:
        for seconds, fraction in ((0, 0.2), (50, 0.3), (90, 0.4), (100, 0.5), (7200, 0.6), (9000, 1.0)):
            now[0] = seconds
            move(fraction, "vadam-naval")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "uci · best · vadam-naval: 40%, 2 min elapsed, 4 min left",
        "uci · best · vadam-naval: 60%, 2 h 0 min elapsed, 2 h 0 min left",
    ]


def test_json_has_null_for_numbers_that_it_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"r2": -np.inf, "rows": [float("nan"), 1.5, {"n": 2}]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "r2": None,
        "rows": [None, 1.5, {"n": 2}],
    }


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table of prices that depend on numbers and on a category."""
    folder, random = tmp_path_factory.mktemp("houses"), np.random.default_rng(0)
    table = pd.DataFrame(
        {"area": random.uniform(20, 200, 150), "city": random.choice(["Lagos", "Paris", "Tokyo"], 150)}
    )
    extra = table["city"].map({"Lagos": 0, "Paris": 300, "Tokyo": 150})
    table["price"] = 3 * table["area"] + extra + random.normal(0, 20, 150)
    table["dear"] = np.where(table["price"] > 450, "yes", "no")
    table.drop(columns="dear").to_csv(folder / "houses.csv", index=False)
    table.drop(columns="price").to_parquet(folder / "dear.parquet")
    return folder


def test_fit_and_predict_numbers(houses: Path, tmp_path: Path) -> None:
    model, predictions = tmp_path / "m.safetensors", tmp_path / "p.csv"
    fitted = answer("fit", houses / "houses.csv", "--target", "price", "--out", model, "--budget", 0)
    assert fitted["task"] == "regression"
    assert fitted["held_out_rows"] == 30
    assert fitted["r2"] > 0.9
    assert "A model of price" in Path(fitted["report"]).read_text()
    predicted = answer("predict", model, houses / "houses.csv", "--out", predictions)
    assert predicted["columns"] == ["price", "mean", "std", "low_90", "high_90", "epistemic", "aleatoric"]
    table, truth = pd.read_csv(predictions), pd.read_csv(houses / "houses.csv")["price"]
    assert len(table) == 150
    assert (table["low_90"] < table["mean"]).all()
    assert (table["mean"] < table["high_90"]).all()
    covered = ((table["low_90"] <= truth) & (truth <= table["high_90"])).mean()
    assert covered > 0.75  # without tuning the noise is that of the default: wide or narrow, not absurd


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_carriage_return_in_a_cell_ends_no_row(suffix: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"note": ["a\rb", "\r", 'c"d'], "mean": [1.5, 2.0, 3.0]})
    dataframe.writer(path := tmp_path / f"p{suffix}")(table)
    pd.testing.assert_frame_equal(pd.read_csv(path, sep="," if suffix == ".csv" else "\t"), table)


def test_fit_and_predict_classes(houses: Path, tmp_path: Path) -> None:
    model, predictions = tmp_path / "m.safetensors", tmp_path / "p.parquet"
    fitted = answer("fit", houses / "dear.parquet", "--target", "dear", "--out", model, "--budget", 0)
    assert fitted["task"] == "classification"
    assert fitted["accuracy"] > fitted["accuracy_of_the_commonest_class"]
    answer("predict", model, houses / "dear.parquet", "--out", predictions)
    table = pd.read_parquet(predictions)
    assert list(table.columns) == ["dear", "predicted", "p_no", "p_yes", "mutual_information"]
    assert table[["p_no", "p_yes"]].sum(axis=1).to_numpy() == pytest.approx(1.0, abs=2e-4)


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table as people have them: semicolons, decimal commas, gaps, dates, an id, free text, a constant, odd words."""
    folder, random, n = tmp_path_factory.mktemp("messy"), np.random.default_rng(0), 200
    area = random.uniform(20, 200, n)
    day = random.integers(0, 900, n)
    table = pd.DataFrame(
        {
            "house_id": np.arange(n) + 1000,
            "area": np.round(area, 1),
            "city": random.choice(["Lagos", "Paris", ""], n, p=[0.6, 0.38, 0.02]),
            "sold": (pd.Timestamp("2019-01-01") + pd.to_timedelta(day, "D")).strftime("%d.%m.%Y"),
            "rooms": random.integers(1, 8, n).astype(object),
            "comment": [f"house number {k}" for k in range(n)],
            "country": "X",
            "price": np.round(3 * area + 0.2 * day + random.normal(0, 20, n), 2),
        }
    )
    table["price"] += 300 * (table["city"] == "Paris")
    table.loc[::15, "area"] = np.nan
    table.loc[::70, "rooms"] = "unknown"
    table.loc[::50, "price"] = np.nan
    table.to_csv(folder / "messy.csv", index=False, sep=";", decimal=",")
    new = table.drop(columns=["price", "country"]).head(12).copy()
    new.loc[1, "city"] = "Oslo"
    new.to_csv(folder / "new.csv", index=False, sep=";", decimal=",")
    return folder


def test_from_a_messy_table_to_a_page_and_predictions(messy: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.safetensors", tmp_path / "p.csv"
    fitted = answer("fit", messy / "messy.csv", "--target", "price", "--out", model, "--budget", 0, "--members", 2)
    assert fitted["rows"] == 196
    assert fitted["columns"] == ["area", "city", "sold", "rooms"]
    assert set(fitted["left_out"]) == {"house_id", "comment", "country"}
    assert "looks like an id" in fitted["left_out"]["house_id"]
    assert any("Left out: 4 rows without 'price'." in note for note in fitted["notes"])
    assert any("'unknown' cannot be read as numbers" in note for note in fitted["notes"])
    assert fitted["rmse"] < fitted["rmse_of_the_mean"]
    page = Path(fitted["report"]).read_text()
    assert "used without tuning" in page
    for part in (
        "Which columns matter",
        "least sure of",
        "Columns used",
        "Columns left out",
        "vadam predict",
        "seconds",
    ):
        assert part in page
    predicted = answer("predict", model, messy / "new.csv", "--out", out)
    assert any("'Oslo' was never seen in training (1 row)" in note for note in predicted["notes"])
    table = pd.read_csv(out)
    assert table["house_id"].tolist() == list(range(1000, 1012))
    assert all(len(str(value).partition(".")[2]) <= 2 for value in table["mean"])
    known = pd.read_csv(messy / "new.csv", sep=";", decimal=",")
    known.loc[1, "city"] = "Paris"
    known.to_csv(tmp_path / "known.csv", index=False)
    answer("predict", model, tmp_path / "known.csv", "--out", out)
    words = known.assign(area=known["area"].map(lambda area: str(area).replace(".", ","))).astype({"area": object})
    words.loc[2:5, "area"] = "k.A."  # too many words for a column of numbers, but the model knows what it is
    words.to_csv(tmp_path / "words.csv", index=False, sep=";")
    notes = answer("predict", model, tmp_path / "words.csv", "--out", tmp_path / "w.csv")["notes"]
    assert "area: 'k.A.' cannot be read as numbers and count as missing" in notes
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "w.csv").iloc[6:], pd.read_csv(out).iloc[6:])
    assert table["std"][1] > 1.5 * pd.read_csv(out)["std"][1]  # less sure of a city that it has never seen
    far = known.astype({"sold": object})
    far.loc[3, "area"], far.loc[4, "sold"], far.loc[5, "sold"] = 1e5, "1950-03-01", "soon"
    far.to_csv(tmp_path / "far.csv", index=False)
    notes = " ".join(answer("predict", model, tmp_path / "far.csv", "--out", tmp_path / "f.csv")["notes"])
    for part in (
        "area lies far outside",
        "sold lies far outside of training's 20",
        "in 1 row:",
        "sold: 'soon' cannot be read as dates",
    ):
        assert part in notes
    assert "rooms lies" not in notes


@pytest.mark.parametrize("classes", [False, True])
def test_a_model_that_has_learned_nothing_says_so(classes: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300) if classes else rng.normal(size=300)
    pd.DataFrame({"x": rng.normal(size=300), "y": y}).to_csv(tmp_path / "t.csv", index=False)
    options = [
        "--task",
        "classification" if classes else "regression",
        "--members",
        1,
        "--out",
        tmp_path / "m.safetensors",
    ]
    notes = answer("fit", tmp_path / "t.csv", "--target", "y", "--budget", 2, *options)["notes"]
    assert any("these columns say little about 'y'" in note for note in notes)


@pytest.mark.parametrize("classes", [False, True])
def test_held_out_rows_that_are_alike_do_not_judge_the_columns(classes: bool, tmp_path: Path) -> None:
    """No model is better than a guess from these rows themselves, which is always right."""
    y = np.array(["a"] * 36 + ["b"] * 4) if classes else np.array([0.5] * 36 + [1.5, 2.5, 3.5, 4.5])
    table = pd.DataFrame({"x": np.arange(40) + np.random.default_rng(0).normal(size=40), "y": y})
    table.to_csv(path := tmp_path / "t.csv", index=False)
    settings = ("--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors", "--holdout", 0.05)
    task = "classification" if classes else "regression"
    said = answer("fit", path, "--target", "y", "--task", task, *settings)
    assert said["held_out_rows"] == 2
    assert not [note for note in said["notes"] if "no better than" in note]
    assert classes or said["r2"] is None


def test_a_linear_model_that_is_better_is_named() -> None:
    actual = np.arange(4.0)
    numbers = RegressionEvaluation("y", 9, actual, actual + 1, actual, np.array([0.05, 0.95]), np.zeros((4, 2)), -1.0)
    better = "On the held-out rows a linear model has a smaller error: compare the two before you use this one."
    assert evaluation.linear_model_is_better(numbers, {"rmse_of_a_linear_model": 0.9}) == [better]
    assert evaluation.linear_model_is_better(numbers, {"rmse_of_a_linear_model": 1.1}) == []
    lead = numbers.lead({"rmse_of_the_mean": 1.25, "rmse_of_a_linear_model": 0.9})
    assert "the usual error (RMSE) is 1, against 1.25 by the mean and 0.9 by a linear model." in lead
    right = np.array([0, 0, 1, 1])
    classes = ClassificationEvaluation("y", 9, right, np.array([[0.7, 0.3]] * 3 + [[0.4, 0.6]]), ["0", "1"], right)
    assert "logistic" in evaluation.linear_model_is_better(classes, {"accuracy_of_logistic_regression": 1.0})[0]
    assert evaluation.linear_model_is_better(classes, {"accuracy_of_logistic_regression": 0.75}) == []
    lead = classes.lead({"accuracy_of_the_commonest_class": 0.5, "accuracy_of_logistic_regression": 1.0})
    assert lead.endswith(
        "75 % are predicted right, against 50 % by the commonest class and 100 % by logistic regression."
    )


def test_the_page_names_the_first_categories_of_a_column() -> None:
    few = Column("city", "category", categories=("Lagos", "Paris"))
    assert evaluation.describe_column(few) == "2 categories: Lagos, Paris"
    many = Column("code", "category", categories=("a word " * 10, *"bcdefghij"))
    assert evaluation.describe_column(many) == "10 categories: a word a word a word a word a…, b, c, d, e, f, g, h, …"
    assert evaluation.describe_column(Column("sold", "date", missing=True)) == "date, some missing"
    gappy = Column("city", "category", missing=True, categories=("Lagos", "Paris"))
    assert evaluation.describe_column(gappy) == "2 categories: Lagos, Paris, some missing"


def test_the_help_lists_the_optimizers() -> None:
    assert list(OPTIMIZERS) == optimizer_names()


@pytest.mark.parametrize("suffix", [".tsv", ".xlsx", ".parquet", ".txt"])
def test_tables_of_every_kind_are_read(suffix: str, houses: Path, tmp_path: Path) -> None:
    table, path = pd.read_csv(houses / "houses.csv"), tmp_path / f"table{suffix}"
    {
        ".tsv": lambda: table.to_csv(path, sep="\t", index=False),
        ".txt": lambda: table.to_csv(path, sep="|", index=False),
    }.get(suffix, lambda: table.to_excel(path, index=False) if suffix == ".xlsx" else table.to_parquet(path))()
    found = dataframe.read(path)
    assert found.columns.tolist() == table.columns.tolist()
    np.testing.assert_allclose(found["price"], table["price"])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a;y\n1;1.234,50 €\n2;12,00 €\n3;2.000.000,25 €\n", [1234.5, 12.0, 2_000_000.25]),
        ("a;y\n1,5;1.234\n2,5;12\n3,5;12.000\n", [1234.0, 12.0, 12_000.0]),
        ('a,y\n1,"1.234,50"\n2,"12,00"\n3,\n', [1234.5, 12.0, np.nan]),
        ("a;y\n1;0,25\n2;-1,5\n3;2\n", [0.25, -1.5, 2.0]),
        ('a,y\n1,"0,251"\n2,"-1,500"\n3,"2,000"\n', [0.251, -1.5, 2.0]),
        ('a,y\n1,"0,25"\n2,"-1,5"\n3,"2"\n', [0.25, -1.5, 2.0]),
        ("a;y\n" + "1;0,25\n" * 40, [0.25] * 40),
        ("a;y;b\n" + "1,5;0,25;2,5\n" * 40, [0.25] * 40),
        ("Prices\n\na;y;b\n" + "1,5;0,25;2,5\n" * 40, [0.25] * 40),
        ("a,y\n1,1.234\n2,12.5\n3,7\n", [1.234, 12.5, 7.0]),
        ("a;b;y\n" + "1,234;0.25;0.126\n" * 3, [0.126] * 3),
        ("a,y,\n" + "1,2.5,\n" * 3, [2.5] * 3),
        ("a,y\n" + "1,2.5,\n" * 3, [2.5] * 3),
        ("a,y\n1,2.5,\n", [2.5]),
    ],
)
def test_numbers_are_read_as_europeans_write_them(text: str, numbers: list[float], tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_bytes(text.encode("utf-8-sig"))
    np.testing.assert_array_equal(dataframe.read(path)["y"].to_numpy(dtype=float), numbers)


@pytest.mark.parametrize("then", ["1 234,50", "234,5", "1\u00a0234,50 €", "\u22125,25"])
def test_spaces_between_thousands_stand_beside_decimal_commas(then: str, tmp_path: Path) -> None:
    """A column of "1 234,50" was text and left out."""
    values = np.random.default_rng(0).normal(0, 9000, 80)
    texts = [f"{v:,.2f}".translate(str.maketrans({",": " ", ".": ",", "-": "\u2212"})) for v in values]
    (path := tmp_path / "t.csv").write_text("v;y\n" + "".join(f"{text};1\n" for text in texts), encoding="utf-8")
    X = dataframe.read(path)[["v"]]
    np.testing.assert_allclose(floats(X["v"]), values, atol=0.51e-2)
    column = TableEncoder().fit(X).columns[0]
    path.write_text(f"v;y\n{then};1\n", encoding="utf-8")
    number = float(then.strip(" €").translate(str.maketrans({" ": "", "\u00a0": "", ",": ".", "\u2212": "-"})))
    assert predicting._numbers(column, dataframe.read(path, {"v": column})["v"]).tolist() == [number]


@pytest.mark.parametrize(
    ("text", "decimal", "odd"),
    [
        ("a;y\n1;12.5\n2;8.25\n", ",", "12.5"),
        ("a;y\n1;12,5\n2;8,25\n", ".", "12,5"),
        ("a;y\n1;9.532\n2;0.125\n", ",", "0.125"),
    ],
)
def test_a_decimal_sign_that_the_numbers_do_not_have_is_named(
    text: str, decimal: str, odd: str, tmp_path: Path
) -> None:
    (path := tmp_path / "t.csv").write_text(text)
    column = Column("y", "number", quantiles=(0.0, 20.0))
    other = {".": ",", ",": "."}[decimal]
    for used in (None, {"y": column}):
        assert dataframe.read(path, used, decimal=decimal).attrs["notes"] == [
            f"y: {odd!r} has another decimal sign than --decimal {decimal}: give --decimal {other} if that is wrong."
        ]
        assert dataframe.read(path, used, decimal=other).attrs["notes"] == []


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_words_for_gaps_may_stand_between_white_space(suffix: str, tmp_path: Path) -> None:
    """A cell "NA " made text of a column of numbers, and was a category."""
    table = pd.DataFrame({"x": [1.5, "NA ", 2.5, 7.5] * 9, "c": ["a", "b", " NA ", " "] * 9, "y": range(36)})
    read = dataframe.read(written(table, tmp_path / f"t{suffix}"))
    np.testing.assert_array_equal(floats(read["x"])[:4], [1.5, np.nan, 2.5, 7.5])
    assert read["c"].isna().tolist()[:4] == [False, False, True, True]


@pytest.mark.parametrize(
    ("separator", "cells", "numbers"),
    [
        ("\t", ["1,234", "999", "12,345", "880"], [1234, 999, 12345, 880]),
        ("\t", ["$1,234", "$999", "$12,345", "$880"], [1234, 999, 12345, 880]),
        (";", ["1.234", "999", "1.012.345", "880"], [1234, 999, 1012345, 880]),
        (";", ["1.234", "999", "12.345", "880"], [1234, 999, 12345, 880]),
        (";", ["1.234", "9.25", "12.345", "880"], [1.234, 9.25, 12.345, 880]),
        (";", ["1,234", "9,25", "12,345", "880"], [1.234, 9.25, 12.345, 880]),
        (";", ["1.234", "9.125", "12.345", "8.250"], [1.234, 9.125, 12.345, 8.25]),
        (";", ["1,234", "9,125", "12,345", "8,250"], [1.234, 9.125, 12.345, 8.25]),
        (";", ["1.234", "50", "12.345", "50"], [1.234, 50, 12.345, 50]),
    ],
)
def test_thousands_beside_smaller_numbers_are_thousands(
    separator: str, cells: list[str], numbers: list[float], tmp_path: Path
) -> None:
    """Numbers from 1,000 on were read as decimals: 1.234 between 999 and 880."""
    (path := tmp_path / "t.csv").write_text(
        f"y{separator}b\n" + "".join(f"{cell}{separator}{k}\n" for k, cell in enumerate(cells))
    )
    column = dataframe.read(path)["y"]
    np.testing.assert_array_equal(floats(column), numbers)


@pytest.mark.parametrize(
    ("separator", "cells", "others", "numbers"),
    [
        (",", ["1.234", "999", "12.345", "880"], ['"1.234,50"', '"2,25"', '"0,50"', '"3"'], [1234, 999, 12345, 880]),
        (",", ["1.234", "9.870", "12.345", "8.100"], ['"2,5"', '"2,25"', '"0,50"', '"3,0"'], [1234, 9870, 12345, 8100]),
        (";", ["1.234", "9.870", "12.345", "8.100"], ["1.234,50", "2,25", "0,50", "3"], [1234, 9870, 12345, 8100]),
        ("\t", ["1,234", "9,870", "12,345", "8,100"], ["$1,234.50", "$2.25", "$0.50", "$3"], [1234, 9870, 12345, 8100]),
        ("\t", ["$1,234", "$9,870", "$12,345", "$8,100"], ["1.5", "2.25", "0.5", "3"], [1234, 9870, 12345, 8100]),
        (",", ["1.234", "999", "12.345", "880"], ["1.5", "2.25", "0.5", "3"], [1.234, 999, 12.345, 880]),
        (",", ["1.234", "999", "12.345", "880"], ["7", "8", "9", "3"], [1.234, 999, 12.345, 880]),
        (",", ["1.234", "99.5", "12.345", "880"], ['"2,5"', '"2,25"', '"0,50"', '"3,0"'], [1.234, 99.5, 12.345, 880]),
    ],
)
def test_other_columns_tell_the_sign_of_thousands(
    separator: str, cells: list[str], others: list[str], numbers: list[float], tmp_path: Path
) -> None:
    """One column with "1.234,50" says that 1.234 in another is a thousand, and "$1,234.50" the contrary."""
    rows = "".join(separator.join(row) + "\n" for row in zip(cells, others, strict=True))
    (path := tmp_path / "t.csv").write_text(f"y{separator}b\n" + rows)
    np.testing.assert_array_equal(floats(dataframe.read(path)["y"]), numbers)


@pytest.mark.parametrize(
    ("separator", "in_training", "then", "number"),
    [
        (";", lambda v: f"{v:,.2f}".translate(str.maketrans(",.", ".,")), "4.235", 4235),
        ("\t", lambda v: f"{v:,.0f}", "4,235", 4235),
        (",", lambda v: f'"{v / 2000:.3f}"'.replace(".", ","), '"4,235"', 4.235),
        (";", lambda v: f"{v / 1000:.3f}", "4.235", 4.235),
        (",", lambda v: f'"{v:,.0f}"', '"4,235"', 4235),
        (",", lambda v: f"{v:.3f}", "4.235", 4.235),
        (",", lambda v: f"{v:.0f}", "4.235", 4235),
    ],
)
def test_a_number_of_two_meanings_has_that_of_the_training(
    separator: str, in_training: Callable[[float], str], then: str, number: float, tmp_path: Path
) -> None:
    """A few new rows do not tell whether "4,235" is four thousand or four."""
    values = np.random.default_rng(0).uniform(500, 9000, 80)
    rows = "".join(f"{in_training(v)}{separator}{2 * v:.0f}\n" for v in values)
    (path := tmp_path / "t.csv").write_text(f"v{separator}y\n" + rows)
    X = dataframe.read(path)[["v"]]
    column = TableEncoder().fit(X).columns[0]
    path.write_text(f"v{separator}z\n{then}{separator}1\n950{separator}2\n")
    assert floats(dataframe.read(path, {"v": column})["v"]).tolist() == [number, 950]


@pytest.mark.parametrize(
    ("rows", "number", "notes"),
    [
        (["4.934\t0.50"], 4.934, []),
        (["4.934\t1,50"], 4934, []),
        (["4.934\t1"], 4934, ["v: '4.934' is read as 4934; give --decimal . if that is wrong."]),
        (["4,934\t0,50"], 4.934, []),
        (["4,934\t0.50"], 4934, []),
    ],
)
def test_a_number_of_two_meanings_has_the_decimal_sign_of_the_other_columns(
    rows: list[str], number: float, notes: list[str], tmp_path: Path
) -> None:
    """A sure decimal sign in another column of the model decides what 4,934 means, before the sizes that the model knows."""
    (path := tmp_path / "t.tsv").write_text("v\tz\n" + "".join(f"{row}\n" for row in rows))
    used = {"v": Column("v", "number", quantiles=(5.5, 6e4)), "z": Column("z", "number", quantiles=(0.0, 2.0))}
    read = dataframe.read(path, used)
    assert floats(read["v"]).tolist() == [number]
    assert read.attrs["notes"] == notes


@pytest.mark.parametrize(
    ("text", "decimal", "guess", "meant"),
    [
        ('a,y\n1,"35,963"\n2,"41,250"\n', ",", 35963.0, 35.963),
        ("a;y\n1;9.532\n2;8.002\n", ",", 9.532, 9532.0),
        ("a;y\n1;9,532\n2;8,002\n", ".", 9.532, 9532.0),
        ("a,y\n1,1.532\n2,225\n", ",", 1.532, 1532.0),
    ],
)
def test_a_number_of_two_meanings_is_named_with_the_option_that_settles_it(
    text: str, decimal: str, guess: float, meant: float, tmp_path: Path
) -> None:
    (path := tmp_path / "t.csv").write_text(text)
    read = dataframe.read(path)
    assert floats(read["y"])[0] == guess
    (note,) = read.attrs["notes"]
    assert note.endswith(f"is read as {guess:g}; give --decimal {decimal} if that is wrong.")
    settled = dataframe.read(path, decimal=decimal)
    assert floats(settled["y"])[0] == meant
    assert settled.attrs["notes"] == []
    column = Column("y", "number", quantiles=(guess, guess + 1))
    assert floats(dataframe.read(path, {"y": column}, decimal=decimal)["y"])[0] == meant
    of_texts = written(pd.read_csv(path, sep=text[1], dtype=str), tmp_path / "t.parquet")
    assert floats(dataframe.read(of_texts, decimal=decimal)["y"])[0] == meant


@pytest.mark.parametrize(
    "text",
    [
        'a,y\n1.5,"35,963"\n2.25,"41,250"\n',
        "a;y\n1,5;9.532\n2,25;8.002\n",
        "a,y\n1,9.532\n2,8.002\n",
        'a,y\n1,"35,963"\n2,"1,241,250"\n',
        "a;y\n1;9.532\n2;8.0021\n",
    ],
)
def test_a_number_that_another_one_explains_is_not_named(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text(text)
    assert dataframe.read(path).attrs["notes"] == []


@pytest.mark.parametrize(
    ("separator", "beside", "then"), [(",", '"1.635,31 €"', "-1.576"), (";", "2,5", "0.680"), ("\t", "598,5", "-0.546")]
)
def test_a_number_beside_europeans_numbers_has_the_size_of_the_training(
    separator: str, beside: str, then: str, tmp_path: Path
) -> None:
    """A file of one row does not tell that its columns are written in two ways, as the file of the training does."""
    values = np.random.default_rng(0).normal(size=80)
    head = f"v{separator}price\n"
    (path := tmp_path / "t.csv").write_text(head + "".join(f"{v:.3f}{separator}{beside}\n" for v in values))
    X = dataframe.read(path)[["v"]]
    np.testing.assert_allclose(floats(X["v"]), values, atol=0.51e-3)
    column = TableEncoder().fit(X).columns[0]
    path.write_text(f"{head}{then}{separator}{beside}\n")
    read = pd.Series(dataframe.read(path, {"v": column})["v"])
    assert predicting._numbers(column, read).tolist() == [float(then)]


def test_thousands_beside_decimal_points_are_no_decimal_commas(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=40)
    rows = "".join(f"{a:.2f};{a:.3f};{10_000 + 1000 * a:,.0f}\n" for a in x)
    (path := tmp_path / "t.csv").write_text("b;a;y\n" + rows)
    prepared = preparation.prepare(dataframe.read(path), "y", "auto", (), 0.2, path)
    np.testing.assert_allclose(prepared.y.to_numpy(dtype=float), np.round(10_000 + 1000 * x), atol=0.51)
    np.testing.assert_allclose(prepared.X["a"], x, atol=0.51e-3)


@pytest.mark.parametrize("rows", ["0,1,5\n", "0,1,5\n0,2,5\n"])
def test_rows_with_more_cells_than_the_header_are_refused(rows: str, tmp_path: Path) -> None:
    """Pandas would take the first cells for names of the rows, and shift all others."""
    (path := tmp_path / "t.csv").write_text("x,y\n" + rows)
    with pytest.raises(CommandError, match="more cells than the line with the names"):
        dataframe.read(path)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a,b,y\n1,2,3\n4,5\n# end\n7,8,9\n", "2 rows with fewer cells than there are columns, in line 3, 4"),
        ('a,b,y\n1,"2\n3",4\n\n5, "6,7"\n', "1 row with fewer cells than there are columns, in line 5"),
        ("A title\na,b,y\n1,2,3\n4,5\n", "1 row with fewer cells than there are columns, in line 4"),
        ("a,b,y\n1,2,3\n \n\n4,,\n", None),
        ("a,b,y,\n1,2,3,\n4,5,6,\n", None),
        ("y\n1\n2\n", None),
    ],
)
def test_rows_with_fewer_cells_than_the_header_are_named(text: str, lines: str | None, tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text(text)
    found = [note for note in dataframe.read(path).attrs["notes"] if "title" not in note]
    assert found == ([] if lines is None else [f"{lines}: the last ones are gaps."])


@pytest.mark.parametrize("codes", [("007", "A12", "B3"), ("TRUE", "FALSE", "n.v."), ("1.0", "2.0", "x")])
def test_a_category_is_known_whatever_other_rows_hold(codes: tuple[str, str, str], tmp_path: Path) -> None:
    """A file with the first code alone reads as numbers or truth values."""
    random = np.random.default_rng(0)
    k = random.integers(0, 3, 60)
    table = pd.DataFrame({"code": np.array(codes)[k], "y": 50 * k + random.normal(size=60)})
    table.to_csv(path := tmp_path / "t.csv", index=False)
    answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    predicted = []
    for name, cells in (("alone", codes[:1]), ("all", codes)):
        (new := tmp_path / f"{name}.csv").write_text("code\n" + "".join(f"{code}\n" for code in cells))
        said = answer("predict", tmp_path / "m.safetensors", new, "--out", out := tmp_path / "p.csv")
        assert said["notes"] == []
        predicted.append(pd.read_csv(out)["mean"][0])
    assert predicted[0] == predicted[1]


def test_truth_values_beside_another_word_are_predicted(tmp_path: Path) -> None:
    flag, random = np.arange(60) % 2 == 0, np.random.default_rng(0)
    pd.DataFrame({"flag": flag, "y": 50 * flag + random.normal(size=60)}).to_csv(
        path := tmp_path / "t.csv", index=False
    )
    answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    (new := tmp_path / "new.csv").write_text("flag\nTrue\nFalse\nmaybe\n")
    said = answer("predict", tmp_path / "m.safetensors", new, "--out", out := tmp_path / "p.csv")
    assert said["notes"][0] == "flag: 'maybe' cannot be read as numbers and count as missing"
    assert pd.read_csv(out)["mean"][:2].round(-1).tolist() == [50, 0]


def test_a_target_is_found_as_names_are_read(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": np.arange(60), "\u2028y ": np.arange(60.0), " b": np.arange(60)})
    table.to_csv(path := tmp_path / "t.csv", index=False)
    for target in ("y", "\u2028y ", " y"):
        settings = ("--ignore", " b", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
        said = answer("fit", path, f"--target={target}", *settings)
        assert said["target"] == "y"


def test_a_number_that_was_never_a_category_is_counted(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"code": ["1.5", "2.5", "x"] * 20, "y": random.normal(size=60)})
    table.to_csv(path := tmp_path / "t.csv", index=False)
    answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    (new := tmp_path / "new.csv").write_text("code\n1.5\n3.0\n3.0\n")
    said = answer("predict", tmp_path / "m.safetensors", new, "--out", tmp_path / "p.csv")
    assert said["notes"] == ["code: '3' was never seen in training (2 rows): wider intervals there."]


def test_a_long_column_has_one_type(tmp_path: Path) -> None:
    """Read in pieces, the codes of the first piece would be numbers."""
    (path := tmp_path / "t.csv").write_text("code,y\n" + "007,1\n" * 600_000 + "A12,2\n")
    assert dataframe.read(path)["code"].unique().tolist() == ["007", "A12"]


def test_thousands_and_dates_with_dots_stay_text_where_they_are_not_numbers(tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text('day;code;us\n31.12.2020;1.2.3;"1,234.50"\n01.01.2021;4.5.6;"2,000.00"\n')
    assert dataframe.read(path).iloc[0].tolist() == ["31.12.2020", "1.2.3", "1,234.50"]


@pytest.mark.parametrize("title", ["Sales of 2020,,\n,,\n", "Sales of 2020\n\n", '"Sales, of 2020"\n'])
def test_lines_above_the_names_are_a_title(title: str, tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text(title + "a,b,y\n" + "1,2,3\n" * 30)
    table = dataframe.read(path)
    assert table.columns.tolist() == ["a", "b", "y"]
    assert len(table) == 30
    assert "are a title" in table.attrs["notes"][0]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x,y\n1,1\n\n  \n2,2\n" + "3,3\n" * 30 + "3,1e300\n", 36),
        ('x,y\n"a\nb\n",1\n\n2,2\n' + "3,3\n" * 30 + "3,1e300\n", 37),
        ("title\n\nx,y\n\n,\n" + "3,3\n\n" * 30 + '"3\n",1e300\n', 66),
        ("x,y\n1,1\n" + "3,3\nx,y\n\n" * 30 + "3,1e300\n", 93),
    ],
)
def test_lines_are_counted_with_blank_ones_and_those_inside_of_cells(text: str, line: int, tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text(text)
    with pytest.raises(CommandError, match=f"in line {line},"):
        preparation.prepare(dataframe.read(path), "y", "regression", (), 0.2, path)


def test_blank_lines_do_not_hide_an_id(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k % 7},{'' if k % 5 == 0 else k % 11}\n" + "\n" * (k % 9 == 0) for k in range(1, 60))
    (path := tmp_path / "t.csv").write_text("n,x,y\n" + rows)
    prepared = preparation.prepare(dataframe.read(path), "y", "regression", (), 0.2, path)
    assert list(TableEncoder().fit(prepared.X).left_out) == ["n"]


def test_lines_are_counted_with_the_title(tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text(
        "Sales\n\nx,y\n" + "".join(f"{k % 7},{k}\n" for k in range(200)) + "3,1e300\n"
    )
    with pytest.raises(CommandError, match="in line 204"):
        preparation.prepare(dataframe.read(path), "y", "auto", (), 0.2, path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_infinite_numbers_count_as_missing_and_are_named(suffix: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=40)
    table = pd.DataFrame({"x": x, "y": 2 * x})
    table.loc[3:4, "x"] = [np.inf, -np.inf]
    path, model = written(table, tmp_path / f"t{suffix}"), tmp_path / "m.safetensors"
    notes = answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", model)["notes"]
    assert "x: infinite in 2 rows, which count as missing" in notes
    notes = answer("predict", model, path, "--out", tmp_path / "p.csv")["notes"]
    assert "x: '-inf', 'inf' cannot be read as numbers and count as missing" in notes


def test_words_in_a_column_of_european_numbers_are_named(tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text("x;y\n" + "1;2,5\n" * 30 + "1;k.A.\n")
    table = dataframe.read(path)
    assert table.attrs["notes"] == ["y: 'k.A.' cannot be read as numbers and count as missing"]
    assert table["y"].tolist()[:30] == [2.5] * 30
    assert np.isnan(table["y"][30])


def test_texts_of_a_sheet_are_read_as_europeans_write_numbers(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    values = np.random.default_rng(0).uniform(1000, 9000, 60)
    texts = [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in values]
    sheet = pd.DataFrame({"price": texts, "size": [f"{v / 1000:.1f}".replace(".", ",") for v in values], "y": values})
    sheet.loc[7, "price"] = "sold"
    sheet.to_excel(path := tmp_path / "t.xlsx", index=False)
    read = dataframe.read(path)
    assert read.attrs["notes"] == ["price: 'sold' cannot be read as numbers and count as missing"]
    np.testing.assert_allclose(read["price"].drop(7), np.delete(values, 7), atol=0.006)
    np.testing.assert_allclose(read["size"], values / 1000, atol=0.06)
    columns = {column.name: column for column in TableEncoder().fit(read[["price", "size"]]).columns}
    sheet.assign(price="4.235", size=["XL" if k else "4,2" for k in range(60)]).to_excel(path, index=False)
    assert set(dataframe.read(path, columns)["price"]) == {4235}


def test_merged_cells_and_hidden_rows_of_a_sheet_are_named(tmp_path: Path) -> None:
    """Ten rows under one merged cell had a value and nine gaps, and nothing said so."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in [["Sales of 2020"], [], ["region", "x", "y"], *([None, k, 2 * k] for k in range(20))]:
        sheet.append(row)
    sheet.merge_cells("A1:C1")
    book.save(path := tmp_path / "t.xlsx")
    assert dataframe.read(path).attrs["notes"] == ["The first 2 lines are a title and are left out."]
    for first in (4, 14):
        sheet.cell(first, 1, "North")
        sheet.merge_cells(start_row=first, end_row=first + 9, start_column=1, end_column=1)
    sheet.row_dimensions[7].hidden = True
    book.save(path)
    assert dataframe.read(path).attrs["notes"][1:] == [
        "Hidden rows are read as all others: 1.",
        "Merged cells: 2. Only the first cell of each has its value, the others are gaps: unmerge and fill them.",
    ]


def test_windows_text_keeps_its_euro_and_its_dashes(tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_bytes("Größe;Preis €\n1,5;12 €\n–;13 €\n".encode("cp1252"))
    table = dataframe.read(path)
    assert table.columns.tolist() == ["Größe", "Preis €"]
    assert table["Preis €"].tolist() == ["12 €", "13 €"]
    assert table["Größe"].isna().tolist() == [False, True]
    path.write_bytes(b"name;y\n\x81\xe9;1\n")  # 0x81 means nothing on Windows
    assert dataframe.read(path)["name"].tolist() == ["\x81é"]


def test_a_long_file_keeps_its_letters(tmp_path: Path) -> None:
    """A letter of two bytes across the first million had made Windows' text of the whole file."""
    head = "x,city\n1,"
    rows = "1,Zürich\n" * 110_000
    for pad in range(1, 12):
        content = (head + "a" * pad + "\n" + rows).encode()
        if content[999_999:1_000_001] == "ü".encode():
            break
    assert content[999_999:1_000_001] == "ü".encode()
    (path := tmp_path / "t.csv").write_bytes(content)
    assert set(dataframe.read(path)["city"][1:]) == {"Zürich"}


@pytest.mark.parametrize("separator", [",", ";"])
def test_names_that_are_repeated_between_the_rows_are_left_out(separator: str, tmp_path: Path) -> None:
    rows = [[k + 0.5, k, k, None if k == 1 else f"{k + 1}.2.2020"] for k in range(20)]
    decimal = "." if separator == "," else ","
    text = pd.DataFrame(rows, columns=["x", "x", "NA", "day"]).to_csv(index=False, sep=separator, decimal=decimal)
    names, first, *others = text.splitlines()
    (path := tmp_path / "t.csv").write_text("\n".join(["Sales", "", names, first, names, *others, names]) + "\n")
    table = dataframe.read(path)
    assert "Left out: 2 rows with the names of the columns again." in table.attrs["notes"]
    assert table.index.tolist() == [2, *range(4, 23)]  # two less than the lines
    assert [dtype.kind for dtype in table.dtypes][:3] == ["f", "i", "i"]
    np.testing.assert_array_equal(table["x"], np.arange(20) + 0.5)
    np.testing.assert_array_equal(table["x.1"], np.arange(20))
    assert np.flatnonzero(table["day"].isna()).tolist() == [1]


def test_a_workbook_with_several_sheets_says_which_is_read(tmp_path: Path) -> None:
    with pd.ExcelWriter(path := tmp_path / "t.xlsx") as book:
        for name in ("prices", "notes"):
            pd.DataFrame({"x": [1, 2], "y": [3, 4]}).to_excel(book, sheet_name=name, index=False)
    assert dataframe.read(path).attrs["notes"] == ["The first of 2 sheets is read: 'prices'."]


@pytest.mark.parametrize("title", [[["Sales of 2024"], []], [[]], [["Sales of 2024"], ["by region"], []]])
def test_lines_above_the_names_of_a_sheet_are_a_title(title: list[list[str]], tmp_path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    for row in [*title, ["a", "b", "y"], *([k, k % 3, 2 * k] for k in range(30))]:
        book.active.append(row)
    book.save(path := tmp_path / "t.xlsx")
    table = dataframe.read(path)
    assert table.columns.tolist() == ["a", "b", "y"]
    assert table["y"].tolist() == list(range(0, 60, 2))
    assert table.index[0] == len(title)
    assert table.attrs["notes"] == [f"The first {len(title)} lines are a title and are left out."]


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (pd.Index([f"r{k}" for k in range(20)], name="code"), ["code", "x", "y"]),
        (pd.date_range("2020-01-01", periods=20, name="day"), ["day", "x", "y"]),
        (pd.MultiIndex.from_product([list("ab"), range(10)], names=["part", None]), ["part", "level_1", "x", "y"]),
        (pd.date_range("2020-01-01", periods=20), ["x", "y"]),
        (pd.Index(range(20, 0, -1)), ["x", "y"]),
    ],
)
def test_an_index_with_a_name_is_a_column(index: pd.Index, names: list[str], tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=20)
    pd.DataFrame({"x": x, "y": 2 * x}, index=index).to_parquet(path := tmp_path / "t.parquet")
    table = dataframe.read(path)
    assert table.columns.tolist() == names
    assert table.index.tolist() == [*range(20)]
    np.testing.assert_array_equal(table["x"], x)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [(["True", "", "False"], ["False", "True"]), (["1", "", "0"], ["0", "1"]), (["b", "", "a"], ["a", "b"])],
)
def test_gaps_among_the_targets_leave_their_labels(cells: list[str], labels: list[str], tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{k},{cells[k % 3]}\n" for k in range(30)))
    prepared = preparation.prepare(dataframe.read(path), "y", "auto", (), 0.2, path)
    assert [str(label) for label in np.unique(prepared.y)] == labels


def test_a_package_that_reads_a_table_and_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **options: object) -> None:
        raise ImportError

    for reader, name, says in (
        ("ExcelFile", "t.xlsx", r"openpyxl: pip install"),
        ("read_parquet", "t.parquet", r"pyarrow: pip install"),
        ("ExcelFile", "t.xls", "Excel's old format: save it as .xlsx"),
    ):
        (tmp_path / name).write_bytes(b"")
        monkeypatch.setattr(pd, reader, missing)
        with pytest.raises((ImportError, CommandError), match=says):
            dataframe.read(tmp_path / name)


def test_gaps_where_there_were_none_are_named_in_every_kind_of_column(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "area": random.uniform(20, 200, 80),
            "city": random.choice(["Lagos", "Paris"], 80),
            "sold": (pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 700, 80), "D")).astype(str),
        }
    )
    table["price"] = 3 * table["area"] + 300 * (table["city"] == "Paris")
    table.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.safetensors"
    answer("fit", tmp_path / "t.csv", "--target", "price", "--out", model, "--budget", 0, "--members", 1)
    new = table.head(4)
    for row, name in enumerate(("area", "city", "sold")):
        new = new.assign(**{name: new[name].where(new.index != row)})
    new.to_csv(tmp_path / "new.csv", index=False)
    notes = answer("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv")["notes"]
    for name in ("area", "city", "sold"):
        assert f"{name} is missing in 1 row, but never was in training: wider intervals there." in notes
    table.head(4).to_csv(tmp_path / "whole.csv", index=False)
    answer("predict", model, tmp_path / "whole.csv", "--out", tmp_path / "w.csv")
    std, before = (pd.read_csv(tmp_path / name)["std"] for name in ("p.csv", "w.csv"))
    assert (std[:2] > 1.5 * before[:2]).all()  # area and city decide the price


def test_a_file_without_names_says_so(tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text("1.5,2\n2.5,3\n")
    assert "write the names of the columns above it" in " ".join(call("fit", path, "--target", "y").output.split())


def test_units_that_differ_among_the_targets_are_named(tmp_path: Path) -> None:
    rows = "".join(f"{k * k},{k}.5%\n{k * k + 1},{k / 100 + 0.5}\n" for k in range(20))
    (path := tmp_path / "t.csv").write_text("x,y\n" + rows)
    prepared = preparation.prepare(dataframe.read(path, target="y"), "y", "auto", (), 0.2, path)
    assert prepared.notes == ["y: '0.5%' and '0.5' are read as numbers of one unit"]


def test_the_total_below_a_short_table_is_named(tmp_path: Path) -> None:
    """A target far from all others was named from 100 rows on only."""
    y = np.append(np.arange(60.0), [np.arange(60).sum()])
    prepared = preparation.prepare(pd.DataFrame({"x": y % 7, "y": y}), "y", "auto", (), 0.2, tmp_path / "t.csv")
    assert prepared.notes == ["'y' is far from all other values in line 62: check it."]


def test_classes_that_differ_in_case_alone_are_named(tmp_path: Path) -> None:
    """The target "Y", "N", "y" has three classes, and nothing said so."""
    table = pd.DataFrame({"x": np.arange(30.0) % 7, "y": ["Y", "N", "y"] * 10})
    notes = preparation.prepare(table, "y", "auto", (), 0.2, tmp_path / "t.csv").notes
    assert notes == ["y: 'Y', 'y' are different classes; write them alike if they mean the same"]


def test_targets_far_from_all_others_are_named(tmp_path: Path) -> None:
    y = np.append(np.arange(200.0), [1e6])
    table, path = pd.DataFrame({"x": y % 7, "y": y}), tmp_path / "t.csv"
    prepared = preparation.prepare(table, "y", "auto", (), 0.2, path)
    assert prepared.notes == ["'y' is far from all other values in line 202: check it."]
    table.loc[3, "y"] = 1e300
    with pytest.raises(CommandError, match="holds 1e\\+300 in line 5, which is too large"):
        preparation.prepare(table, "y", "auto", (), 0.2, path)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (30061.7, "30060"),
        (0.94589, "0.9459"),
        (-12.0, "-12"),
        (0.0, "0"),
        (1.5e-7, "1.5e-07"),
        (123456789.0, "123500000"),
    ],
)
def test_numbers_for_people_have_four_digits(value: float, shown: str) -> None:
    assert four_digits(value) == shown


def test_predictions_of_large_numbers_are_whole() -> None:
    assert predicting._rounded(np.array([1234.56, -7.5]), 0).tolist() == [1235, -8]
    assert predicting._rounded(np.array([1e300]), 0).tolist() == [1e300]
    assert predicting._rounded(np.array([1.2345]), 2).tolist() == [1.23]


def test_predictions_of_tiny_numbers_keep_their_digits(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=60)
    pd.DataFrame({"x": x, "farad": 3e-13 * x}).to_csv(path := tmp_path / "t.csv", index=False)
    answer("fit", path, "--target", "farad", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    answer("predict", tmp_path / "m.safetensors", path, "--out", out := tmp_path / "p.csv")
    predicted = pd.read_csv(out)
    assert np.corrcoef(predicted["mean"], x)[0, 1] > 0.99
    assert (predicted["low_90"] < predicted["high_90"]).all()
    assert predicting._rounded(np.array([3.0, 1e-13]), 15).tolist() == [3.0, 1e-13]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_stand_beside_the_predictions_as_they_were_written(suffix: str, tmp_path: Path) -> None:
    ids = {
        "zip": [f"{k:05d}" for k in range(60)],
        "phone": [f"+49{k}" for k in range(60)],
        "code": [f"{k}E{k % 9}" for k in range(60)],
        "version": [f"1.{k}" for k in range(60)],
        "paid": [f"1.{k:03d},50 €" for k in range(60)],
        "long": ["" if k == 7 else str(2**60 + k) for k in range(60)],
        "word": ["NA" if k == 7 else "none" for k in range(60)],
        "gaps": ["" if k == 7 else str(k) for k in range(60)],
    }
    x = np.random.default_rng(0).normal(size=60)
    pd.DataFrame({**ids, "x": x, "y": 3 * x}).to_csv(path := tmp_path / "t.csv", index=False)
    ignored = [word for name in ids for word in ("--ignore", name)]
    settings = ("--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    answer("fit", path, "--target", "y", *ignored, *settings)
    answer("predict", tmp_path / "m.safetensors", path, "--out", out := tmp_path / f"p{suffix}")
    if suffix == ".csv":
        found = pd.read_csv(out, dtype=str, keep_default_na=False)
        assert {name: found[name].tolist() for name in ids} == ids
        assert found["y"].astype(float).to_numpy() == pytest.approx(3 * x)
    else:
        found = pd.read_parquet(out)
        assert {name: found[name].tolist() for name in list(ids)[:-1]} == dict(list(ids.items())[:-1])
        assert pd.api.types.is_numeric_dtype(found["gaps"])
        assert found["y"].to_numpy() == pytest.approx(3 * x)


def test_long_ids_beside_gaps_in_parquet_stay_as_they_are(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=60)
    ids = pd.Series([None if k == 7 else 2**60 + k for k in range(60)], dtype="Int64")
    table = pyarrow.table({"who": pyarrow.array(ids), "x": x, "y": 3 * x})
    parquet.write_table(table.replace_schema_metadata(), path := tmp_path / "t.parquet")
    settings = ("--ignore", "who", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    answer("fit", path, "--target", "y", *settings)
    answer("predict", tmp_path / "m.safetensors", path, "--out", out := tmp_path / "p.parquet")
    assert pd.read_parquet(out, dtype_backend="numpy_nullable")["who"].equals(ids)
    pd.testing.assert_series_equal(pd.read_parquet(out)["y"], pd.Series(3 * x, name="y"))
    answer("predict", tmp_path / "m.safetensors", path, "--out", out := tmp_path / "p.csv")
    assert pd.read_csv(out, dtype=str)["who"][59] == str(2**60 + 59)


def test_ids_of_a_sheet_stay_as_they_are(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=60)
    ids = {"who": ["007", "008", None] * 20, "k": [1, None, 3] * 20}
    pd.DataFrame({**ids, "x": x, "y": 3 * x}).to_excel(path := tmp_path / "t.xlsx", index=False)
    settings = ("--ignore", "who", "--ignore", "k", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    answer("fit", path, "--target", "y", *settings)
    answer("predict", tmp_path / "m.safetensors", path, "--out", out := tmp_path / "p.csv")
    found = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert found["who"].tolist() == ["007", "008", ""] * 20
    assert found["k"].tolist() == ["1", "", "3"] * 20
    assert found["y"].astype(float).to_numpy() == pytest.approx(3 * x)
    answer("predict", tmp_path / "m.safetensors", path, "--out", out := tmp_path / "p.parquet")
    assert pd.read_parquet(out)["who"][:2].tolist() == ["007", "008"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("cells", "written"),
    [
        (["NA", "a", None], ["NA", "a", ""]),
        ([1, "a", 2.5, None, True, "007"], ["1", "a", "2.5", "", "True", "007"]),
        ([True, None, False], ["True", "", "False"]),
        ([1, "NA", 3], ["1", "NA", "3"]),
        ([pd.Timestamp("2020-01-02"), 3, None], ["2020-01-02 00:00:00", "3", ""]),
        ([0.5, 2, None], ["0.5", "2.0", ""]),
        ([1e21, 1, 2], ["1e+21", "1.0", "2.0"]),
        ([None] * 3, [""] * 3),
    ],
    ids=["NA", "mixed", "truth", "NA beside numbers", "a date", "numbers", "huge", "empty"],
)
def test_all_kinds_of_cells_of_a_sheet_are_kept(cells: list, written: list[str], suffix: str, tmp_path: Path) -> None:
    """The text "NA" was lost, True written as 1, and parquet of mixed cells ended in a traceback."""
    cells = cells * 6
    pd.DataFrame({"k": pd.Series(cells, dtype=object), "x": 1.5}).to_excel(path := tmp_path / "t.xlsx", index=False)
    table = dataframe.read(path, {})[["k"]]
    dataframe.writer(out := tmp_path / f"p{suffix}")(table)
    found = pd.read_csv(out, dtype=str, keep_default_na=False) if suffix == ".csv" else pd.read_parquet(out)
    assert ["" if pd.isna(cell) else str(cell) for cell in found["k"]] == written * 6


def test_a_class_whose_rows_are_all_held_out_is_learned(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=60)
    y = np.array(["no"] * 60)
    y[fitting._split(60, 0.2, 0)[1][:2]] = "yes"
    pd.DataFrame({"x": x, "y": y}).to_csv(path := tmp_path / "t.csv", index=False)
    said = answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    assert said["held_out_rows"] == 12


def test_model_and_baselines_are_judged_on_the_same_rows(tmp_path: Path) -> None:
    """The model was judged without the rows of a class that only held-out rows have, the baselines with them."""
    x = np.random.default_rng(0).normal(size=60)
    y = np.where(x > 0, "high", "low")
    y[fitting._split(60, 0.2, 0)[1][:6]] = "rare"
    pd.DataFrame({"x": x, "y": y}).to_csv(path := tmp_path / "t.csv", index=False)
    said = answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    assert said["held_out_rows"] == 6
    assert said["accuracy_of_logistic_regression"] > 0.8
    note = "y: all rows of 'rare' were held out, where no model can predict them: the evaluation leaves out 6 rows."
    assert note in said["notes"]
    few = fitting._split(10, 0.1, 0)[1]
    table = pd.DataFrame({"x": x[:10], "y": ["a", "b"] * 5}).astype({"y": object})
    table.loc[few, "y"] = "c"
    table.to_csv(path, index=False)
    refused = call("fit", path, "--target", "y", "--budget", 0, "--holdout", 0.1, "--out", tmp_path / "m.safetensors")
    assert "no held-out row has a class of the training rows" in refused.output


def test_a_rare_class_has_a_probability_above_zero(tmp_path: Path) -> None:
    """Probabilities were rounded to four decimals: a rare class had 0, and the log-loss of its rows was infinite."""
    x = np.random.default_rng(0).normal(size=200)
    pd.DataFrame({"x": x, "y": np.where(x > 1, "rare", "usual")}).to_csv(path := tmp_path / "t.csv", index=False)
    model, out = tmp_path / "m.safetensors", tmp_path / "p.csv"
    answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", model)
    pd.DataFrame({"x": [-3.0, -30.0, -300.0]}).to_csv(new := tmp_path / "new.csv", index=False)
    answer("predict", model, new, "--out", out)
    probability = VadamClassifier.load(model).predict_proba(pd.read_csv(new))[:, 0]
    assert probability.min() < 1e-4
    np.testing.assert_allclose(pd.read_csv(out)["p_rare"], probability, rtol=1e-5)


def test_a_column_that_a_prediction_replaces_is_named(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=60)
    pd.DataFrame({"x": x, "y": 3 * x}).to_csv(path := tmp_path / "t.csv", index=False)
    answer("fit", path, "--target", "y", "--budget", 0, "--members", 1, "--out", tmp_path / "m.safetensors")
    pd.DataFrame({"x": x, "mean": "mine"}).to_csv(path, index=False)
    said = answer("predict", tmp_path / "m.safetensors", path, "--out", tmp_path / "p.csv")
    assert said["notes"] == ["Columns of the table that predictions of the same name replace: mean."]


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (("none", "mild"), {"none", "mild"}),
        (("-", "+"), {"-", "+"}),
        (("-", "mild"), {"mild"}),
        (("NA", "mild"), {"mild"}),
        (("none", "1.5"), {1.5}),
    ],
)
def test_words_for_gaps_that_are_classes(cells: tuple[str, str], labels: set, tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{k},{cells[k % 2]}\n" for k in range(40)))
    table = dataframe.read(path, target="y")
    assert set(table["y"].dropna()) == labels
    assert any("is read as a class" in note for note in table.attrs["notes"]) == (len(labels) == 2)


MIXED = {
    "area": ["NA", "EU", "none"],
    "size": ["?", "1", "2"],
    "price": ["1.234,50 €", "999,00 €", "-"],
    "code": ["1.0", "2.50", "x"],
}


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
def test_words_for_gaps_are_those_of_every_format(suffix: str, tmp_path: Path) -> None:
    """A model of a sheet predicted other numbers for the same table as .csv."""
    table = pd.DataFrame({name: cells * 10 for name, cells in MIXED.items()}, dtype=object)
    table["y"] = ["+", "-", "+"] * 10
    read = dataframe.read(written(table, tmp_path / f"t{suffix}"), target="y")
    assert read["area"].dropna().unique().tolist() == ["EU"]
    assert floats(read["size"])[1:3].tolist() == [1.0, 2.0]
    assert np.isnan(floats(read["size"])[0])
    assert floats(read["price"])[:2].tolist() == [1234.5, 999.0]
    assert read["y"].unique().tolist() == ["+", "-"]
    assert any("'-' is read as a class" in note for note in read.attrs["notes"])


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
@pytest.mark.parametrize("rows", [slice(None), slice(1), slice(2, 3)])
def test_a_word_for_a_gap_is_a_category_of_a_model_that_knows_it(suffix: str, rows: slice, tmp_path: Path) -> None:
    """A model of a DataFrame with the category "none" took the same word of a file for a gap."""
    table = pd.DataFrame({"area": MIXED["area"], "code": MIXED["code"]}, dtype=object)
    encoder = TableEncoder().fit(pd.concat([table, table]))
    new = table.iloc[rows].assign(lists="a list", word="none")
    read = dataframe.read(written(new, tmp_path / f"t{suffix}"), {column.name: column for column in encoder.columns})
    encoded = encoder.encode(read)
    assert not encoded.unseen.any()
    np.testing.assert_array_equal(encoded.values, encoder.encode(table.iloc[rows]).values)
    assert set(read["word"]) == {"none"}


def test_a_parquet_file_may_hold_lists_beside_texts(tmp_path: Path) -> None:
    table = pd.DataFrame({"tags": [["a", "b"], [], None, ["c"]] * 5, "word": ["NA", "x", "y", "x"] * 5, "y": range(20)})
    table["day"] = [date(2020, 1, 1), None] * 10
    read = dataframe.read(written(table, tmp_path / "t.parquet"), target="y")
    assert read.isna().sum().tolist() == [5, 5, 0, 10]


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (("007", "012", ""), ["007", "012"]),
        (("7", "12", ""), [7, 12]),
        ([f"{k:03d}" for k in range(30)], list(range(30))),
    ],
    ids=["codes", "numbers", "many numbers"],
)
def test_classes_keep_their_leading_zeros(cells: Sequence[str], labels: list, suffix: str, tmp_path: Path) -> None:
    """The model predicted 7 where the table says 007."""
    table = pd.DataFrame({"x": range(60), "y": [cells[k % len(cells)] or None for k in range(60)]})
    path = written(table, tmp_path / f"t{suffix}")
    prepared = preparation.prepare(dataframe.read(path, target="y"), "y", "auto", (), 0.2, path)
    assert sorted(prepared.y.unique().tolist()) == labels
    assert prepared.task == ("regression" if len(labels) > 10 else "classification")


def test_a_target_of_zero_among_the_rows_held_out(tmp_path: Path) -> None:
    """The search had chosen the logarithm, which the training on all rows then refused."""
    random = np.random.default_rng(0)
    x = random.normal(size=100)
    y = np.exp(1.5 * x + 0.05 * random.normal(size=100))
    y[fitting._split(100, 0.2, 0)[1][0]] = 0
    pd.DataFrame({"x": x, "y": y}).to_csv(path := tmp_path / "t.csv", index=False)
    settings = ("--budget", 8, "--members", 1, "--out", tmp_path / "m.safetensors")
    assert answer("fit", path, "--target", "y", *settings)["held_out_rows"] == 20


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": range(50), "note": [f"text {k}" for k in range(50)], "y": 1.0}).to_csv(path, index=False)
    result = call("fit", path, "--target", "y", "--ignore", "z", "--task", "guess", "--holdout", 2)
    assert result.exit_code == 1
    for part in (
        "5 problems",
        "--task must be",
        "--holdout must be",
        "does not have: z",
        "always 1.0",
        "no column to learn from",
    ):
        assert part in " ".join(result.output.split())
    wrong = call("fit", path, "--target", "Y")
    assert "no column 'Y'. Did you mean 'y'?" in " ".join(wrong.output.split())


def test_white_space_in_the_names_of_a_model_is_that_of_the_table(tmp_path: Path) -> None:
    """A model of pd.read_csv of "a, b" knows the column " b", which no table has once its names are read."""
    X = pd.DataFrame({"a": np.arange(20) / 7, " b": [1, 2] * 10})
    model = VadamRegressor(tune=False, epochs=1, members=1).fit(X, X["a"])
    model.save(saved := tmp_path / "m.safetensors")
    (new := tmp_path / "new.csv").write_text("a, b, c\n0.5, 1, x\n1.5, 2, y\n")
    found = predicting.predict(saved, new, 0.9)
    assert found.table.columns.tolist()[:2] == ["c", "mean"]
    assert found.notes == []
    expected = model.predict(pd.DataFrame({"a": [0.5, 1.5], " b": [1, 2]}))
    assert found.table["mean"].to_numpy() == pytest.approx(expected, abs=0.01)


def test_a_model_of_several_targets_is_refused(tmp_path: Path) -> None:
    X = pd.DataFrame({"x": np.arange(20.0)})
    VadamRegressor(tune=False, epochs=1, members=1).fit(X, np.c_[X, X]).save(saved := tmp_path / "m.safetensors")
    X.to_csv(new := tmp_path / "new.csv", index=False)
    with pytest.raises(CommandError, match="predicts 2 targets, but vadam predict writes one"):
        predicting.predict(saved, new, 0.9)


def test_a_column_of_dates_that_holds_none_is_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"day": [f"2020-01-{k % 28 + 1:02d}" for k in range(40)], "x": np.arange(40.0) ** 2})
    model = VadamRegressor(tune=False, epochs=1, members=1).fit(table, np.arange(40.0))
    model.save(saved := tmp_path / "m.safetensors")
    (new := tmp_path / "new.csv").write_text("day,x\n43831,1\n43832,4\n")  # as Excel counts days
    with pytest.raises(CommandError, match="the column 'day' holds no dates"):
        predicting.predict(saved, new, 0.9)


def test_a_missing_column_is_named(houses: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.safetensors"
    answer("fit", houses / "houses.csv", "--target", "price", "--out", model, "--budget", 0, "--members", 1)
    (other := tmp_path / "t.csv").write_text("a\n1\n")
    said = call("predict", model, other, "--out", tmp_path / "p.csv", "--json")
    assert json.loads(said.stdout)["error"].count("The model needs the column") == 2


def test_an_interrupted_fit_says_that_nothing_was_written(
    houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "fit", interrupted)
    result = call("fit", houses / "houses.csv", "--target", "price", "--out", tmp_path / "m.safetensors")
    assert result.exit_code == 130
    assert "Stopped. Nothing was written." in result.output
    assert not list(tmp_path.iterdir())


STOPPED = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
from vadam.cli import main
from vadam.estimators import search
train = search.train
def interrupted(*arguments, **options):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    return train(*arguments, **options)
search.train = interrupted
main()
"""


def test_ctrl_c_in_the_middle_of_a_training_ends_it_in_words(houses: Path, tmp_path: Path) -> None:
    words = ["fit", str(houses / "houses.csv"), "--target", "price", "--out", str(tmp_path / "m.safetensors")]
    ended = subprocess.run([sys.executable, "-c", STOPPED, *words], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 130
    assert "Stopped. Nothing was written." in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())


def test_an_interruption_while_the_report_is_written_keeps_the_model(
    houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vadam.report import model as page

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "build", interrupted)
    out = tmp_path / "m.safetensors"
    result = call("fit", houses / "houses.csv", "--target", "price", "--out", out, "--budget", 0, "--members", 1)
    assert result.exit_code == 130
    assert "The model is in" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]
    assert answer("predict", out, houses / "houses.csv", "--out", tmp_path / "p.csv")["rows"] > 0


def test_an_interruption_while_the_command_is_imported_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from vadam import cli

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run_command", interrupted)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "Stopped. Nothing was written.\n"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('a,b\n"1,5e-07",x\n"2,5E+07",y\n"-3e-7",z\n', [1.5e-7, 2.5e7, -3e-7]),
        ("a;b\n1,5e-07;x\n2,5E+07;y\n-3e-7;z\n", [1.5e-7, 2.5e7, -3e-7]),
        ("a\tb\n1,234e+07\tx\n2,123E+07\ty\n-3e7\tz\n", [1.234e7, 2.123e7, -3e7]),
        ("a;b\n1.234e-07;1,5\n2.123E-07;2,5\n-3e-7;0,5\n", [1.234e-7, 2.123e-7, -3e-7]),
    ],
)
def test_decimal_commas_stand_before_exponents_too(tmp_path: Path, text: str, numbers: list[float]) -> None:
    """A column of "1,5e-07" was text and left out."""
    (path := tmp_path / "t.csv").write_text(text)
    np.testing.assert_allclose(floats(dataframe.read(path)["a"]), numbers)


@pytest.mark.parametrize(
    ("text", "sheet", "note"),
    [
        ("a,b\n12 %,x\n13 %,y\n", 0.12, "a: training had percentages, of which 12 % is read as 12"),
        ("a;b\n12,5 %;x\n13 %;y\n", 0.12, "a: training had percentages, of which 12 % is read as 12"),
        ("a;b\n12,5;x\n13;y\n", "12,4 %", "a: '12,4 %' is read without its sign, but training had no percentages"),
        ("a,b\n0.12,x\n0.13,y\n", "12 %", "a: '12 %' is read without its sign, but training had no percentages"),
        ("a,b\n12 %,x\n13 %,y\n", "12.4 %", None),
        ("a;b\n12,5 %;x\n13 %;y\n", "12,4%", None),
        ("a,b\n0.12,x\n0.13,y\n", 0.124, None),
    ],
)
def test_percentages_in_one_of_training_and_table_are_named(
    text: str, sheet: float | str, note: str | None, tmp_path: Path
) -> None:
    """A sheet with 0.12 was read in the unit of a text with "12 %" without a word."""
    (tmp_path / "t.csv").write_text(text)
    encoder = TableEncoder().fit(dataframe.read(tmp_path / "t.csv"))
    pd.DataFrame({"a": [sheet], "b": ["x"]}).to_excel(tmp_path / "t.xlsx", index=False)
    model = SimpleNamespace(encoder_=encoder, feature_names_in_=["a", "b"])
    table = dataframe.read(tmp_path / "t.xlsx", {column.name: column for column in encoder.columns})
    X, notes = predicting._columns_of(model, table, tmp_path / "t.xlsx")
    number = float(str(sheet).replace(",", ".").rstrip("% "))
    np.testing.assert_allclose(X["a"], [number])
    found = [said for said in notes if "percentages" in said]
    assert [said[: len(note or "")] for said in found] == ([] if note is None else [note])
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.as_dict()))) == encoder


@pytest.mark.parametrize("target", ["y", "zip"])
def test_codes_with_leading_zeros_are_named_where_they_become_numbers(tmp_path: Path, target: str) -> None:
    """Zip codes such as 01234 were read as numbers without a word."""
    (path := tmp_path / "t.csv").write_text("zip,x,y\n01234,0.5,1\n,0,2\n98765,0.1,3\n")
    pd.read_csv(path, dtype=str).to_excel(sheet := tmp_path / "t.xlsx", index=False)
    codes = ["zip: '01234' is read as a number; put a letter before each if these are codes"]
    for table in (path, sheet):
        assert dataframe.read(table, target=target).attrs["notes"] == (codes if target == "y" else [])


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
def test_truth_values_beside_gaps_are_classes_in_every_format(suffix: str, tmp_path: Path) -> None:
    """The classes of a sheet with gaps were 0 and 1."""
    frame = pd.DataFrame({"y": pd.array([True, False, None] * 5, dtype="boolean"), "x": range(15)})
    path = tmp_path / f"t{suffix}"
    write = {".csv": frame.to_csv, ".xlsx": frame.to_excel, ".parquet": frame.to_parquet}[suffix]
    write(path, index=False)
    prepared = preparation.prepare(dataframe.read(path, target="y"), "y", "auto", (), 0.2, path)
    assert prepared.y.tolist() == [True, False] * 5
    assert prepared.y.dtype == bool


@pytest.mark.parametrize("option", [("--seed", -1), ("--budget", -1), ("--members", 0)])
def test_numbers_out_of_range_are_refused_before_the_fit(option: tuple[str, int], houses: Path, tmp_path: Path) -> None:
    result = call("fit", houses / "houses.csv", "--target", "price", "--out", tmp_path / "m.safetensors", *option)
    assert result.exit_code == 2
    assert option[0] in result.output


def test_the_command_and_the_estimator_have_the_same_defaults() -> None:
    import inspect

    from vadam.cli.table import fit

    command, estimator = inspect.signature(fit).parameters, inspect.signature(VadamRegressor).parameters
    for name in ("members", "budget", "optimizer"):
        assert command[name].default == estimator[name].default


@pytest.mark.parametrize(
    ("target", "task"),
    [
        (pd.Series([0.5, 1.5, 2.5]), "regression"),
        (pd.Series(range(30)), "regression"),
        (pd.Series([0, 1, 1]), "classification"),
        (pd.Series([True, False]), "classification"),
        (pd.Series(["a", "b"]), "classification"),
    ],
)
def test_the_task_is_inferred_from_the_target(target: pd.Series, task: str) -> None:
    assert preparation.infer_task("auto", target) == task


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".xlsx"])
def test_an_index_without_a_name_beside_one_column_is_no_title(suffix: str, tmp_path: Path) -> None:
    table, path = pd.DataFrame({"x": [1.5, 2.5, 3.5]}), tmp_path / f"t{suffix}"
    if suffix == ".xlsx":
        table.to_excel(path)
    else:
        table.to_csv(path, sep="," if suffix == ".csv" else "\t")
    assert floats(dataframe.read(path)["x"]).tolist() == [1.5, 2.5, 3.5]
