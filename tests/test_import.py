"""Imports are light: a command or script must not wait for modules that it does not use."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType

import pytest

import vadam
from vadam import public

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "scipy", "pandas", "sklearn", "matplotlib", "plotly", "optuna", "llvmlite")
OPTIONAL = (
    "pandas",
    "sklearn",
    "matplotlib",
    "plotly",
    "optuna",
    "typer",
    "rich",
    "lightning",
    "transformers",
    "gymnasium",
)
DISTRIBUTIONS = {"sklearn": "scikit-learn", "stable_baselines3": "stable-baselines3", "distributed": "dask"}
"""Names of distributions that differ from the module's."""


def loaded(program: str) -> set[str]:
    """Return the names of the modules that a new process has imported after the program."""
    shown = "import sys; print(); print(*sys.modules)"
    ended = f"try:\n    exec({program!r})\nexcept SystemExit:\n    pass\n{shown}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV_CORE")}
    run = subprocess.run([sys.executable, "-c", ended], env=environment, check=True, capture_output=True, text=True)
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", ["--help", "fit --help", "doctor --help", "list --help", "data --help"])
def test_help_imports_nothing_heavy(arguments: str) -> None:
    program = f"import sys; sys.argv = ['vadam', *{arguments.split()}]; from vadam.cli import main; main()"
    found = loaded(program)
    assert "vadam.cli.app" in found
    assert not found & {*HEAVY, "vadam.public"}


def test_version_imports_not_even_the_command_line() -> None:
    found = loaded("import sys; sys.argv = ['vadam', '--version']; from vadam.cli import main; main()")
    assert not found & {*HEAVY, "typer", "rich", "vadam.cli.app"}


def test_import_vadam_waits_for_the_first_use() -> None:
    assert not loaded("import vadam; vadam.__version__") & {*HEAVY, "vadam.public"}
    assert {"torch", "vadam.optim"} <= loaded("import vadam; vadam.Vadam")


def test_optional_packages_are_not_imported() -> None:
    found = loaded("import vadam; [getattr(vadam, name) for name in vadam.__all__]")
    assert not found & set(OPTIONAL)


def test_all_names_are_there() -> None:
    assert set(public.__all__) <= set(dir(vadam))
    assert all(getattr(vadam, name) is getattr(public, name) for name in public.__all__)
    space: dict = {}
    exec("from vadam import *", space)
    assert set(public.__all__) <= set(space)
    with pytest.raises(AttributeError, match="'vadam' has no attribute 'Adam'"):
        vadam.Adam  # noqa: B018


def test_no_exported_name_hides_a_module() -> None:
    """``vadam.predict`` would be the function or the module, whichever was imported last."""
    packages = ["vadam", *(info.name for info in walk_packages(vadam.__path__, "vadam.") if info.ispkg)]
    assert len(packages) > 15
    for package in map(import_module, packages):
        modules = {info.name for info in iter_modules(package.__path__)}
        for name in modules & {*getattr(package, "__all__", [])}:
            assert isinstance(getattr(package, name), ModuleType), f"{package.__name__}.{name} hides a module"


def test_the_version_is_written_once() -> None:
    source = ast.parse(Path(vadam.__file__).read_text())
    (written,) = [node.value.value for node in source.body if isinstance(node, ast.Assign)]
    assert written == vadam.__version__ == version("vadam")


@pytest.mark.parametrize("project", ["pyproject.toml", "paper/pyproject.toml"])
def test_the_oldest_torch_that_is_claimed_is_the_one_that_is_tested(project: str) -> None:
    claimed = re.search(r'"torch>=([\d.]+)"', (ROOT / project).read_text())
    tested = re.search(r"^OLDEST := torch==([\d.]+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert claimed is not None
    assert tested is not None
    assert tested[1] == f"{claimed[1]}.0"


def guarded_imports() -> Iterator[tuple[str, str, list[str]]]:
    """Yield file, module and extras for every import whose failure is explained by ``pip install "vadam[EXTRA]"``."""
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "paper" / "src").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Try) and (
                found := re.search(r'"vadam\[([\w,]+)\]"', "".join(map(ast.unparse, node.handlers)))
            ):
                for inner in node.body:
                    if isinstance(inner, ast.Import | ast.ImportFrom):
                        names = [inner.module] if isinstance(inner, ast.ImportFrom) else [a.name for a in inner.names]
                        for name in names:
                            yield path.name, str(name).partition(".")[0], found[1].split(",")


def test_a_missing_package_is_in_the_extra_that_its_message_names() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = list(guarded_imports())
    assert len(found) > 10
    for file, module, extras in found:
        packages = [re.split(r"[\[<>=]", line)[0] for extra in extras for line in declared[extra]]
        assert DISTRIBUTIONS.get(module, module) in packages, f"{file} imports {module}, which is not in {extras}"
