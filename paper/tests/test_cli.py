"""The commands that the paper adds: what they print, where they write, how they fail."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from vadam.cli.app import app
from vadam_paper.experiments import experiments

COMMAND = [sys.executable, "-c", "from vadam.cli import main; main()"]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def answer(*arguments: object) -> dict:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_help_names_every_command() -> None:
    text = call("--help").output
    assert "From vadam-paper" in text
    for command in ("list", "run", "reproduce", "report", "data"):
        assert f" {command} " in text


def test_list(tmp_path: Path) -> None:
    rows = answer("list", "--results", tmp_path)
    assert [row["name"] for row in rows] == [experiment.name for experiment in experiments()]
    assert all(row["recorded"] == {} for row in rows)
    assert "Figure 2a" in call("list", "--results", tmp_path).output


def test_list_cuts_nothing_at_80_columns(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["list", "--results", str(tmp_path)], env={"COLUMNS": "80"}).output
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for row in answer("list", "--results", tmp_path):
        assert any(line.startswith(f"{row['name']} ") for line in shown.splitlines())


def test_run_and_resume(tmp_path: Path) -> None:
    arguments = ("run", "theory", "--preset", "smoke", "--out", tmp_path, "--jobs", 1)
    first = answer(*arguments)
    assert first["cells_done"] == first["cells"] == 8
    assert answer(*arguments) == first
    shown = call(*arguments).output
    assert "Theorem 1" in shown
    assert "No verdicts yet. They need the preset paper of the protocol text." in " ".join(shown.split())


def test_what_is_missing_is_said_by_the_preset_that_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from vadam_paper.cli.experiments import _show_results
    from vadam_paper.experiments import find

    _show_results(find("char-lm"), tmp_path)
    assert "the preset early or long or paper of" in " ".join(capsys.readouterr().out.split())
    assert "early" in call("run", "--help").output


def test_brackets_are_not_taken_for_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from vadam_paper.cli.experiments import _show_results
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
        (("run", "theory", "--preset", "huge"), "smoke, quick, paper, got 'huge'"),
        (("run", "theory", "--protocol", "authors"), "one of text, got 'authors'"),
        (("run", "theory", "--preset", "smoke", "--jobs", "-1"), "at least 1, got -1"),
        (("data", "check", "bostn"), "did you mean 'boston'?"),
    ],
)
def test_user_errors_are_explained(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
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


def test_ctrl_c_keeps_finished_results_and_says_how_to_continue(tmp_path: Path) -> None:
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
    assert "".join(f"Continue with: vadam {' '.join(arguments)}".split()) in "".join(errors.split())
    assert "Traceback" not in errors
    assert "running" not in json.loads(manifest.read_text())


def _until(true, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
