"""The API page lists every public name, and nothing that does not exist."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
BELOW = ("baselines", "calibration", "curvature", "ensemble", "estimators", "metrics", "plot", "schedules", "tuning")
MODULES = ["vadam", *(f"vadam.{name}" for name in BELOW)]


def listed() -> set[str]:
    """Return the full names of all that the page documents; a whole module counts with its public names."""
    names, module = set(), "vadam"
    for kind, name in re.findall(r"^\.\. (currentmodule|automodule|auto\w+):: ([\w.]+)", PAGE, re.MULTILINE):
        module = name if kind in ("currentmodule", "automodule") else module
        if kind == "automodule":
            names |= {name, *(f"{name}.{public}" for public in getattr(import_module(name), "__all__", ()))}
        elif kind != "currentmodule":
            names.add(name if name.startswith("vadam") else f"{module}.{name}")
    return names


def public(module: ModuleType) -> set[str]:
    """Return the names that a module exports, without modules; a module without ``__all__`` exports what it defines."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    return {name for name in names if not isinstance(getattr(module, name), ModuleType)}


@pytest.mark.parametrize("path", MODULES)
def test_every_public_name_is_on_the_page(path: str) -> None:
    missing = {f"{path}.{name}" for name in public(import_module(path))} - listed()
    assert not missing, f"add them to docs/api.md: {sorted(missing)}"


@pytest.mark.parametrize("name", sorted(listed()))
def test_every_name_on_the_page_exists(name: str) -> None:
    if name.startswith("vadam_paper"):
        pytest.importorskip("vadam_paper", reason="vadam-paper is not installed: pip install ./paper")
    assert pkgutil.resolve_name(name) is not None
