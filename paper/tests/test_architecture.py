"""Arrows point down only: cli → report → experiments → data → vadam, and experiments do not import one another."""

import ast
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import vadam
import vadam_paper

SOURCE = Path(vadam_paper.__file__).parent
LAYERS = ["cli", "report", "experiments", "data"]
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Return the dotted names of a file's imports, also inside functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_arrows_point_down(path: Path) -> None:
    if path.parent == SOURCE:
        assert not list(imported(path)), "the package itself is light: vadam --help imports it"
        return
    mine = path.relative_to(SOURCE).parts[0]
    assert mine in LAYERS, f"{mine} is in no layer: add it to LAYERS"
    for name in imported(path):
        if name.startswith("vadam_paper."):
            other = name.split(".")[1]
            below = LAYERS.index(other) > LAYERS.index(mine)
            assert other == mine or below, f"{path.relative_to(SOURCE)} imports {name}, which is not below {mine}"
        elif name.startswith("vadam.cli."):
            assert mine == "cli", f"{path.relative_to(SOURCE)} imports {name}"


def test_experiments_do_not_import_one_another() -> None:
    folders = [path for path in (SOURCE / "experiments").iterdir() if (path / "run.py").exists()]
    names = {folder.name for folder in folders}
    assert len(names) > 5
    for folder in folders:
        for path in folder.rglob("*.py"):
            for name in imported(path):
                if name.startswith("vadam_paper.experiments."):
                    other = name.split(".")[2]
                    assert other == folder.name or other not in names, f"{path} imports {other}"


def test_both_packages_have_one_version() -> None:
    assert vadam_paper.__version__ == version("vadam-paper") == vadam.__version__ == version("vadam")
