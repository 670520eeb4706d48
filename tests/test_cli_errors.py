"""The command explains damaged models and tables, and refuses paths that it cannot write to before it starts."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from vadam import persist
from vadam.cli import fitting, main, predicting
from vadam.cli.app import app
from vadam.cli.json_output import print_json
from vadam.demo import trainings
from vadam.estimators import VadamRegressor
from vadam.report.model import RegressionEvaluation, build


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "1000"})


def refused(*arguments: object) -> str:
    """Call the command twice, as text and as JSON; return its message."""
    for_people, for_machines = call(*arguments), call(*arguments, "--json")
    assert for_people.exit_code == for_machines.exit_code == 1, (for_people.output, for_people.exception)
    assert isinstance(for_people.exception, SystemExit)
    assert "Traceback" not in for_people.output
    said: str = json.loads(for_machines.stdout)["error"]
    assert " ".join(said.split()) in " ".join(for_people.output.split())
    return said


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path, random = tmp_path / "table.csv", np.random.default_rng(0)
    x = random.normal(size=40)
    pd.DataFrame({"x": x, "y": 2 * x + random.normal(size=40)}).to_csv(path, index=False)
    return path


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the computation begins although its result cannot be written."""

    def begun(*arguments: Any, **options: Any) -> None:
        pytest.fail("the work has begun")

    for place, name in ((fitting, "fit"), (predicting, "predict"), (trainings, "run")):
        monkeypatch.setattr(place, name, begun)


COMMANDS = {
    "fit": ("fit", "{table}", "--target", "y", "--out", "{out}/model.safetensors"),
    "fit's page": ("fit", "{table}", "--target", "y", "--out", "{tmp}/m.safetensors", "--report", "{out}/page.html"),
    "predict": ("predict", "{table}", "{table}", "--out", "{out}/predictions.csv"),
    "demo": ("demo", "--out", "{out}"),
}


def filled(command: str, table: Path, out: Path) -> list[str]:
    return [part.format(table=table, tmp=table.parent, out=out) for part in COMMANDS[command]]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("below", ["file", "file/further"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_below_a_file_is_refused_before_training(command: str, below: str, table: Path) -> None:
    (table.parent / "file").touch()
    out = table.parent / below
    assert str(out) in refused(*filled(command, table, out))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_folder_is_refused_before_training(command: str, table: Path, monkeypatch) -> None:
    out = table.parent / "read-only"
    out.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != out or not mode & os.W_OK)
    assert f"{out} cannot be written to" in refused(*filled(command, table, out))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_a_folder_instead_of_a_file_is_refused_before_training(command: str, table: Path) -> None:
    *arguments, last = filled(command, table, table.parent)
    Path(last).mkdir()
    assert f"{last} is a folder" in refused(*arguments, last)
    assert "is a folder" in refused(*arguments, ".")


@pytest.mark.usefixtures("no_work")
def test_invalid_output_paths_are_refused_before_training(table: Path) -> None:
    assert "--out must be a .csv or .parquet file" in refused("predict", table, table, "--out", table.parent / "p.txt")
    same = table.parent / "model.html"
    assert "model and page" in refused("fit", table, "--target", "y", "--out", same)


def test_missing_folders_are_created(table: Path) -> None:
    model, predictions = table.parent / "new" / "deep" / "m.safetensors", table.parent / "other" / "p.csv"
    fitted = call("fit", table, "--target", "y", "--out", model, "--budget", 0)
    assert fitted.exit_code == 0, fitted.output
    predicted = call("predict", model, table, "--out", predictions)
    assert predicted.exit_code == 0, predicted.output
    assert len(pd.read_csv(predictions)) == 40
    assert sorted(os.listdir(model.parent)) == ["m.html", "m.safetensors"]


@pytest.mark.parametrize("name", ["$x_{$", "$$", "a$b", r"\$x$", "<b>&", "[/red]", "{{style}}"])
def test_any_name_of_a_target_makes_a_page(name: str, tmp_path: Path) -> None:
    x, levels = np.arange(3.0), np.array([0.05, 0.95])
    evaluation = RegressionEvaluation(name, 3, x, x, np.ones(3), levels, np.stack([x - 1, x + 1], axis=1), -1.0)
    page = build(evaluation, tmp_path / "page.html").read_text()
    shown = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"A model of {shown}" in page
    assert f">{shown}, actual<" in page


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, X = tmp_path_factory.mktemp("model") / "m.safetensors", np.arange(20.0)[:, None]
    VadamRegressor(tune=False, epochs=1, members=1, hidden=(2,)).fit(pd.DataFrame(X, columns=["x"]), X[:, 0]).save(path)
    return path


def test_damaged_models_are_refused(model: Path, table: Path) -> None:
    out = ("--out", table.parent / "p.csv")
    damaged = table.parent / "damaged.safetensors"
    content = model.read_bytes()
    for wrong in (b"", b"hello", content[:-1], content[:-1] + bytes([content[-1] ^ 1])):
        damaged.write_bytes(wrong)
        assert "is not a model that vadam fit wrote" in refused("predict", damaged, table, *out)
    posterior, config = persist.load(model)
    for kind in ("saving", "__name__", "VadamClassifier", None, ["VadamRegressor"]):
        persist.save(damaged, posterior, config=config | {"estimator": kind})
        assert "is not a model that vadam fit wrote" in refused("predict", damaged, table, *out)
    assert "There is no model" in refused("predict", table.parent, table, *out)


def test_tables_that_a_model_cannot_take_are_refused(model: Path, table: Path) -> None:
    out = ("--out", table.parent / "p.csv")
    table.write_text("x,y\nword,1\n")
    assert "cannot be predicted" in refused("predict", model, table, *out)
    table.write_text("x,y\n")
    assert "has no rows: there is nothing to predict" in refused("predict", model, table, *out)
    table.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as a table" in refused("predict", model, table, *out)
    (damaged := table.with_suffix(".parquet")).write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    assert "cannot be read as a table" in refused("predict", model, damaged, *out)


@pytest.mark.parametrize("damage", ["no archive", "cut", "bits"])
def test_a_damaged_sheet_is_refused(damage: str, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"x": range(20)}).to_excel(path, index=False)
    content = path.read_bytes()
    third = len(content) // 3
    bits = content[:third] + b"\xff" * 300 + content[third + 300 :]
    path.write_bytes({"no archive": b"PK\x03\x04abc", "cut": content[:-30], "bits": bits}[damage])
    assert "cannot be read as a table" in refused("predict", model, path, "--out", tmp_path / "p.csv")


def test_a_model_without_names_of_columns_is_refused(table: Path) -> None:
    path = table.parent / "m.safetensors"
    VadamRegressor(tune=False, epochs=1, members=1).fit(np.arange(20.0)[:, None], np.arange(20.0)).save(path)
    assert "without column names" in refused("predict", path, table, "--out", table.parent / "p.csv")


def test_other_system_errors_are_explained(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*arguments: Any) -> None:
        raise PermissionError(13, "Permission denied", "secret")

    monkeypatch.setattr(predicting, "predict", denied)
    assert "Permission denied: 'secret'" in refused("predict", table, table, "--out", table.parent / "p.csv")


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "{table}", "--target", "y", "--out", "{table}"),
        ("fit", "{table}", "--target", "y", "--out", "{tmp}/m.safetensors", "--report", "{table}"),
        ("fit", "{table}", "--target", "y", "--out", "{tmp}/link.csv"),
        ("predict", "{tmp}/model.csv", "{table}", "--out", "{table}"),
        ("predict", "{tmp}/model.csv", "{table}", "--out", "{tmp}/model.csv"),
    ],
    ids=["model", "page", "link", "predictions", "predictions over the model"],
)
def test_a_file_that_is_read_is_never_replaced(arguments: tuple[str, ...], table: Path, tmp_path: Path) -> None:
    (tmp_path / "model.csv").write_bytes(b"a model")
    (tmp_path / "link.csv").symlink_to(table)
    before = table.read_bytes()
    message = refused(*[argument.format(table=table, tmp=tmp_path) for argument in arguments])
    assert message.endswith("is read by this command and would be replaced: give another path to write to.")
    assert table.read_bytes() == before
    assert (tmp_path / "model.csv").read_bytes() == b"a model"


def test_numbers_below_zero_and_a_full_disk_are_refused_in_words(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for option in ("--seed", "--budget"):
        result = call("fit", table, "--target", "y", option, -1)
        assert result.exit_code == 2
        assert f"'{option}'" in result.output

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vadam.cli.app.app", full)
    monkeypatch.setattr("sys.argv", ["vadam", "fit"])
    with pytest.raises(SystemExit, match=r"The answer cannot be written: .*No space left"):
        main()


def test_letters_that_the_terminal_does_not_have_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe of Windows has 256 letters, and the tables of experiments have more."""
    content = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(content, encoding="cp1252"))
    monkeypatch.setattr("vadam.cli.app.app", lambda: [print("(θ₁) é"), print_json({"(θ₁)": "é"})])
    monkeypatch.setattr("sys.argv", ["vadam", "list"])
    main()
    sys.stdout.flush()
    shown, as_json = content.getvalue().decode("cp1252").split("\n", 1)
    assert shown == "(??) é"
    assert json.loads(as_json) == {"(θ₁)": "é"}


def test_a_regression_on_words_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "".join(f"{k},{('red', 'green', 'blue')[k % 3]}\n" for k in range(30)))
    message = refused("fit", path, "--target", "y", "--task", "regression", "--out", tmp_path / "m", "--budget", 0)
    assert "The target 'y' holds no numbers: give --task classification" in message
