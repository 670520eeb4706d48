"""The guide for adding an optimizer is true: its four files make one that keeps every promise of the family."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "adding-an-optimizer.md"
INCLUDED = re.compile(
    r"^```\{literalinclude\} (skeleton/\S+)\n:caption: (\S+?)(, at the end of SPECS)?\n", re.MULTILINE
)
TESTS = [
    "tests/contract",
    "tests/optim",
    "tests/test_generated.py",
    "tests/ensemble/test_method.py",
    "tests/backends/test_kernels.py",
    "tests/backends/test_plain.py",
    "tests/backends/test_args_per_weight.py",
    "tests/device",
    "tests/test_prose.py",
]
MOST_FILES, MOST_LINES = 4, 200


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the sources, tests and documentation."""
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "_build", "*.html"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def follow(guide: str, tree: Path) -> dict[str, int]:
    """Add the files that the guide shows to a tree; return the number of lines that each of them takes."""
    lines = {}
    for source, target, is_row in INCLUDED.findall(guide):
        text = (GUIDE.parent / source).read_text()
        path = tree / target
        if is_row:
            before, after = path.read_text().split("\n]\n\nBY_NAME", 1)
            path.write_text(f"{before}\n{text}]\n\nBY_NAME{after}")
        else:
            assert not path.exists(), f"{target} exists: the guide needs another name"
            path.write_text(text)
        lines[target] = len(text.splitlines())
    return lines


@pytest.mark.slow
def test_the_guide_adds_an_optimizer(tree: Path) -> None:
    lines = follow(GUIDE.read_text(), tree)
    print(f"{len(lines)} files, {sum(lines.values())} lines: {lines}")
    assert len(lines) <= MOST_FILES
    assert sum(lines.values()) <= MOST_LINES
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}

    def run(*command: str) -> str:
        found = subprocess.run(
            [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True, timeout=280
        )
        assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
        return found.stdout

    run("tests/generated.py")
    names = "OnlineMagnitude or online_magnitude or online-magnitude or generated"
    shown = run("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *TESTS, "-k", f"({names}) and not compiled")
    passed = re.search(r"(\d+) passed", shown)
    assert passed is not None
    assert int(passed[1]) > 100, shown[-500:]
    assert not re.search(r"\d+ (skipped|xfailed)", shown)
    run("-c", "import vadam; assert vadam.OnlineMagnitude.__name__ in vadam.__all__")
    if shutil.which("ruff") or (Path(sys.executable).parent / "ruff").exists():
        run("-m", "ruff", "check", "src/vadam/rules", "src/vadam/optim", "tests/specs.py")
        run("-m", "ruff", "format", "--check", "src/vadam/rules", "src/vadam/optim", "tests/specs.py")


def test_a_guide_that_leaves_a_file_out_is_noticed(tree: Path) -> None:
    """Without the row the new optimizer has no tests, and one says so."""
    guide = GUIDE.read_text()
    follow(guide[: guide.index("## 3.")] + guide[guide.index("## 4.") :], tree)
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    subprocess.run([sys.executable, "tests/generated.py"], cwd=tree, env=environment, check=True, capture_output=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "tests/test_generated.py"]
    found = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=120)
    assert "OnlineMagnitude has no row in tests/specs.py" in found.stdout
