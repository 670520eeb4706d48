"""The command: what it prints, where it writes, how it fails."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from vadam.cli import frame, modelling
from vadam.cli.app import app
from vadam.cli.progress import bar
from vadam_paper.experiments import ExperimentError, experiments

COMMAND = [sys.executable, "-c", "from vadam.cli import main; main()"]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def answer(*arguments: object) -> dict:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_help_names_every_command() -> None:
    text = call("--help").output
    for command in ("list", "run", "reproduce", "report", "demo", "data", "fit", "predict"):
        assert f" {command} " in text
    assert "--install-completion" in text


def test_version() -> None:
    assert call("--version").output.startswith("vadam ")


def test_list(tmp_path: Path) -> None:
    rows = answer("list", "--results", tmp_path)
    assert [row["name"] for row in rows] == [experiment.name for experiment in experiments()]
    assert all(row["recorded"] == {} for row in rows)
    assert "Figure 2a" in call("list", "--results", tmp_path).output


def test_run_and_resume(tmp_path: Path) -> None:
    arguments = ("run", "theory", "--preset", "smoke", "--out", tmp_path, "--jobs", 1)
    first = answer(*arguments)
    assert first["cells_done"] == first["cells"] == 3
    assert answer(*arguments) == first
    shown = call(*arguments).output
    assert "Theorem 1" in shown
    assert "No verdicts yet. They need the preset paper of the protocol text." in " ".join(shown.split())


def test_what_is_missing_is_said_by_the_preset_that_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from vadam.cli.experiments import _show_results

    from vadam_paper.experiments import find

    _show_results(find("char-lm"), tmp_path)
    assert "the preset early or paper of" in " ".join(capsys.readouterr().out.split())
    assert "early" in call("run", "--help").output


def test_brackets_are_not_taken_for_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from vadam.cli.experiments import _show_results

    from vadam_paper.experiments import find

    _show_results(find("logreg-usps"), tmp_path)
    assert "Median [quartiles]" in " ".join(capsys.readouterr().out.split())


def test_report(tmp_path: Path) -> None:
    written = answer("report", "--results", tmp_path / "none", "--out", tmp_path / "report")
    assert Path(written["page"]).exists()
    assert Path(written["ledger"]).exists()


def test_reproduce_runs_every_protocol_and_reports(tmp_path: Path) -> None:
    result = call(
        "reproduce", "local-minima", "--preset", "smoke", "--out", tmp_path, "--report", tmp_path / "page", "--jobs", 1
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "local-minima" / "smoke-text" / "rows.jsonl").exists()
    assert (tmp_path / "page" / "index.html").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "logreg-toi"), "Did you mean 'logreg-toy'?"),
        (("run", "theory", "--preset", "huge"), "smoke, quick, paper, not 'huge'"),
        (("run", "theory", "--protocol", "authors"), "one of text, not 'authors'"),
        (("run", "theory", "--preset", "smoke", "--jobs", "-1"), "at least 1, not -1"),
        (("data", "check", "bostn"), "did you mean 'boston'?"),
        (("predict", "none.safetensors", "none.csv"), "There is no model none.safetensors."),
        (("fit", "none.csv", "--target", "y"), "There is no file none.csv."),
    ],
)
def test_mistakes_are_told_in_words(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    where = ("--out", tmp_path) if arguments[0] == "run" else ()
    result = call(*arguments, *where)
    assert result.exit_code == 1
    assert says in " ".join(result.output.split())
    assert "Traceback" not in result.output
    as_json = call(*arguments, *where, "--json")
    assert as_json.exit_code == 1
    assert says in json.loads(as_json.stdout)["error"]


def test_data_list_and_check() -> None:
    rows = {row["name"]: row for row in answer("data", "list")}
    assert rows["boston"]["rows"] == 506
    assert answer("data", "check", "diabetes")["ok"]
    assert "boston" in call("data", "list").output
    assert answer("data", "get", "diabetes")["found"] == "package"


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    arguments = ["run", "theory", "--preset", "quick", "--out", str(tmp_path), "--jobs", "1"]
    # A runner in the background of a shell ignores Ctrl-C, and so would what it starts.
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    manifest = tmp_path / "theory" / "quick-text" / "manifest.json"
    _until(manifest.exists, 120)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "".join(f"Go on with: vadam {' '.join(arguments)}".split()) in "".join(errors.split())
    assert "Traceback" not in errors
    assert "running" not in json.loads(manifest.read_text())


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
        "uci · best · vadam-naval: 40%, 2 min gone, 4 min left",
        "uci · best · vadam-naval: 60%, 2 h 0 min gone, 2 h 0 min left",
    ]


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prices that depend on numbers and on a word."""
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


READ_ONLY = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # pandas gives such arrays


@READ_ONLY
def test_fit_and_predict_numbers(houses: Path, tmp_path: Path) -> None:
    model, predictions = tmp_path / "m.safetensors", tmp_path / "p.csv"
    fitted = answer("fit", houses / "houses.csv", "--target", "price", "--out", model, "--budget", 0)
    assert fitted["task"] == "regression"
    assert fitted["held_out_rows"] == 30
    assert fitted["r2"] > 0.9
    assert "A model of price" in Path(fitted["report"]).read_text()
    predicted = answer("predict", model, houses / "houses.csv", "--out", predictions)
    assert predicted["columns"] == ["mean", "std", "low_90", "high_90"]
    table, truth = pd.read_csv(predictions), pd.read_csv(houses / "houses.csv")["price"]
    assert len(table) == 150
    assert (table["low_90"] < table["mean"]).all()
    assert (table["mean"] < table["high_90"]).all()
    covered = ((table["low_90"] <= truth) & (truth <= table["high_90"])).mean()
    assert covered > 0.75  # without tuning the noise is that of the default: wide or narrow, not absurd


@READ_ONLY
def test_fit_and_predict_classes(houses: Path, tmp_path: Path) -> None:
    model, predictions = tmp_path / "m.safetensors", tmp_path / "p.parquet"
    fitted = answer("fit", houses / "dear.parquet", "--target", "dear", "--out", model, "--budget", 0)
    assert fitted["task"] == "classification"
    assert fitted["accuracy"] > fitted["majority_share"]
    answer("predict", model, houses / "dear.parquet", "--out", predictions)
    table = pd.read_parquet(predictions)
    assert list(table.columns) == ["predicted", "p_no", "p_yes"]
    assert table[["p_no", "p_yes"]].sum(axis=1).to_numpy() == pytest.approx(1.0)


def test_words_become_columns_and_the_names_say_how() -> None:
    table = pd.DataFrame({"a": [1, 2], "w": ["x", "y=z"]})
    made = frame.features(table)
    assert list(made.columns) == ["a", "w=x", "w=y=z"]
    assert made.to_numpy().tolist() == [[1, 1, 0], [2, 0, 1]]
    other = frame.features_like(pd.DataFrame({"w": ["new", "x"], "a": [5, 6], "more": [0, 0]}), list(made.columns))
    assert other.to_numpy().tolist() == [[5, 0, 0], [6, 1, 0]]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pd.DataFrame({"a": [1.0, None]}), "'a' is empty in 1 rows"),
        (pd.DataFrame({"w": [f"word {k}" for k in range(60)]}), "60 different words"),
        (pd.DataFrame(), "no column to learn from"),
    ],
)
def test_columns_that_cannot_be_used_are_named(table: pd.DataFrame, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        frame.features(table)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ExperimentError, match="needs the column 'b'"):
        frame.features_like(pd.DataFrame({"a": [1.0]}), ["a", "b"])
    with pytest.raises(ExperimentError, match=r"no column 'y'\. Its columns: a"):
        frame.target_of(pd.DataFrame({"a": [1.0]}), "y")


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
def test_the_task_is_judged_by_the_target(target: pd.Series, task: str) -> None:
    assert modelling._task("auto", target) == task


def _until(true, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
