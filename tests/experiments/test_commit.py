"""The recorded commit is that of the repository that the package belongs to, or none."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vadam

PACKAGE = Path(vadam.__file__).parent
ASK = "from vadam.experiments.manifest import commit; print(commit())"


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


def put(folder: Path) -> Path:
    """Copy the package into a folder; return that folder."""
    shutil.copytree(PACKAGE, folder / "vadam", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def recorded(path: Path, **environment: str) -> str:
    command = [sys.executable, "-c", ASK]
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    return subprocess.run(command, cwd=path, env=variables, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def _git_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is absent")


def test_a_package_installed_inside_another_repository_has_no_commit(tmp_path: Path) -> None:
    assert recorded(put(repository(tmp_path / "theirs") / "env" / "site-packages")) == "None"


def test_a_package_copied_into_another_repository_has_no_commit(tmp_path: Path) -> None:
    theirs = repository(tmp_path / "theirs")
    path = put(theirs / "vendor" / "src")
    git(theirs, "add", "--all")
    git(theirs, "commit", "--quiet", "--message=vendored")
    assert recorded(path) == "None"


def test_a_package_in_its_own_repository_has_its_commit(tmp_path: Path) -> None:
    ours = repository(tmp_path / "theirs" / "ours")
    path = put(ours / "src")
    git(ours, "add", "--all")
    git(ours, "commit", "--quiet", "--message=ours")
    head = git(ours, "rev-parse", "--short=12", "HEAD")
    assert recorded(path) == head
    elsewhere = repository(tmp_path / "elsewhere")
    assert recorded(path, GIT_DIR=str(elsewhere / ".git"), GIT_WORK_TREE=str(elsewhere)) == head
    (path / "vadam" / "__init__.py").write_text((path / "vadam" / "__init__.py").read_text() + "\n")
    assert recorded(path) == f"{head}+"
