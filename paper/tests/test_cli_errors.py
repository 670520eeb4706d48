"""The paper's commands refuse paths that they cannot write to, before they start."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vadam.cli.app import app
from vadam_paper.experiments import runner


@pytest.fixture(autouse=True)
def _no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the computation begins although its result cannot be written."""

    def begun(*arguments: Any, **options: Any) -> None:
        pytest.fail("the work has begun")

    monkeypatch.setattr(runner, "run", begun)
    monkeypatch.setattr("vadam_paper.report.build", begun)


COMMANDS = {
    "run": ("run", "theory", "--preset", "smoke", "--out", "{out}"),
    "reproduce": ("reproduce", "theory", "--preset", "smoke", "--out", "{out}", "--report", "{tmp}/page"),
    "reproduce's page": ("reproduce", "theory", "--preset", "smoke", "--out", "{tmp}", "--report", "{out}"),
    "report": ("report", "--results", "{tmp}/results", "--out", "{out}"),
}


def refused(command: str, tmp: Path, out: Path) -> str:
    """Call the command with an invalid output path; return its message."""
    arguments = [part.format(tmp=tmp, out=out) for part in COMMANDS[command]]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 1, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    said: str = json.loads(result.stdout)["error"]
    return said


@pytest.mark.parametrize("below", ["file", "file/further"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_below_a_file_is_refused_before_training(command: str, below: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / below) in refused(command, tmp_path, tmp_path / below)


@pytest.mark.parametrize("option", [("--protocol", "authors"), ("--preset", "early")])
def test_an_option_that_one_of_several_experiments_does_not_have_is_refused_before_the_first_runs(
    option: tuple[str, str], tmp_path: Path
) -> None:
    result = CliRunner().invoke(
        app,
        ["reproduce", "half-cheetah", "theory", *option, "--out", str(tmp_path), "--report", str(tmp_path), "--json"],
    )
    assert result.exit_code == 1, result.output
    assert f"{option[0][2:]} of theory must be one of" in json.loads(result.stdout)["error"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_folder_is_refused_before_training(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "read-only"
    out.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != out or not mode & os.W_OK)
    assert f"{out} cannot be written to" in refused(command, tmp_path, out)
