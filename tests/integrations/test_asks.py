"""The docs about integrations are true: named tests exist, the table matches the tests, the installation is small."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from matrix import BEGIN, END, written

ROOT = Path(__file__).parents[2]
ASKS = (ROOT / "docs" / "integrations-asks.md").read_text()


def test_every_ask_names_tests_or_examples_that_exist() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", ASKS, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 16))
    for number, shown_by in rows:
        named = re.findall(r"`([^`]+)`", shown_by)
        assert named, f"ask {number} names nothing"
        for name in named:
            path, _, test = name.partition("::")
            assert (ROOT / path).is_file(), f"ask {number}: {path} does not exist"
            functions = {
                node.name
                for node in ast.walk(ast.parse((ROOT / path).read_text()))
                if isinstance(node, ast.FunctionDef)
            }
            assert not test or test in functions, f"ask {number}: {path} has no {test}"


@pytest.mark.slow
def test_the_table_is_that_of_the_tests() -> None:
    """Every cell has its test and every test its cell."""
    pytest.importorskip("lightning", reason="without Lightning its tests are not collected")
    pytest.importorskip("stable_baselines3", reason="without Stable-Baselines3 its tests are not collected")
    command = [sys.executable, str(ROOT / "tests" / "matrix.py"), "--show"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=250, env={**os.environ, "PYTEST_ADDOPTS": ""}
    )
    assert result.returncode == 0, result.stdout[-3000:]
    table = result.stdout.split(BEGIN)[1].split(END)[0]
    page = (ROOT / "docs" / "integrations.md").read_text()
    assert written(page, table) == page, "run: python tests/matrix.py"


def test_the_installation_stays_small() -> None:
    """torch without an upper bound, and nothing, even in an extra, that pulls torchvision."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[\[<>=!~ ;]", requirement)[0].lower() for requirement in wanted}
    pull_torchvision = {
        "torchvision",
        "backpack-for-pytorch",
        "laplace-torch",
        "bayesian-torch",
        "blitz-bayesian-pytorch",
        "tyxe",
    }
    assert not names & pull_torchvision
    assert "torchvision" not in (ROOT / "constraints.txt").read_text().lower()
    assert not any(re.match(r"torch\b.*<", requirement) for requirement in project["dependencies"])
