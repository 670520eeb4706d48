"""The recorded commit is that of the repository that the package belongs to, or none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vadam
import vadam_paper

LIBRARY, PAPER = Path(vadam.__file__).parent, Path(vadam_paper.__file__).parent
ASK = "from vadam_paper.experiments.manifest import commit; print(commit())"


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "theirs").touch()
    git(folder, "add", "theirs")
    git(folder, "commit", "--quiet", "--message=theirs")
    return folder


def put(folder: Path, paper: Path | None = None) -> tuple[Path, Path]:
    """Copy the library into a folder and the paper's package into another, or the same; return both."""
    paper = paper or folder
    shutil.copytree(LIBRARY, folder / "vadam", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PAPER, paper / "vadam_paper", ignore=shutil.ignore_patterns("__pycache__"))
    return folder, paper


def recorded(*paths: Path, **environment: str) -> str:
    command = [sys.executable, "-c", ASK]
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    return subprocess.run(
        command, cwd=paths[0], env=variables, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(autouse=True)
def _git_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is absent")


def test_a_package_installed_inside_another_repository_has_no_commit(tmp_path: Path) -> None:
    assert recorded(*put(repository(tmp_path / "theirs") / "env" / "site-packages")) == "None"


def test_a_package_copied_into_another_repository_has_no_commit(tmp_path: Path) -> None:
    theirs = repository(tmp_path / "theirs")
    paths = put(theirs / "vendor" / "src", theirs / "vendor" / "paper" / "src")
    git(theirs, "add", "--all")
    git(theirs, "commit", "--quiet", "--message=vendored")
    assert recorded(*paths) == "None"


def test_a_package_in_its_own_repository_has_its_commit(tmp_path: Path) -> None:
    ours = repository(tmp_path / "theirs" / "ours")
    paths = put(ours / "src", ours / "paper" / "src")
    git(ours, "add", "--all")
    git(ours, "commit", "--quiet", "--message=ours")
    head = git(ours, "rev-parse", "--short=12", "HEAD")
    assert recorded(*paths) == head
    elsewhere = repository(tmp_path / "elsewhere")
    assert recorded(*paths, GIT_DIR=str(elsewhere / ".git"), GIT_WORK_TREE=str(elsewhere)) == head
    for changed in (paths[0] / "vadam" / "py.typed", paths[1] / "vadam_paper" / "py.typed"):
        before = changed.read_text()
        changed.write_text("changed")
        assert recorded(*paths) == f"{head}+"
        changed.write_text(before)
    assert recorded(*paths) == head
