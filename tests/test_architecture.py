"""Arrows point down only: which part of the package may import which."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "vadam"

# Each layer may import the layers below it, and modules of its own name. Inside a layer nobody imports another.
LAYERS = [
    {"cli"},
    {"demo", "public"},
    {"report", "estimators", "integrations"},
    {"tuning"},
    {"ensemble", "optim", "exact", "baselines", "bound", "calibration", "plot"},
    {"prediction"},
    {"forward"},
    {"backends", "curvature", "metrics", "persist", "schedules"},
    {"rules", "gaussian", "likelihoods", "counter_rng", "compiling", "atomic", "data"},
    {"special", "rotation"},
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}


def part(module: str) -> str | None:
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "vadam" and len(pieces) > 1 else None


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "vadam":
                found |= {f"vadam.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
    return {p for p in map(part, found) if p in LEVEL}


FILES = sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.name != "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_arrows_point_down(path: Path) -> None:
    mine = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert mine in LEVEL, f"{mine} is in no layer: add it to LAYERS"
    for other in imports(path) - {mine}:
        assert LEVEL[other] > LEVEL[mine], (
            f"{path.relative_to(SOURCE)} imports vadam.{other}, which is not below vadam.{mine}"
        )


def test_the_library_does_not_know_the_paper() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "vadam_paper" for name in names), f"{path} imports {names}"


def test_rules_know_only_torch() -> None:
    assert not imports(SOURCE / "rotation.py")
    for path in (SOURCE / "rules").glob("*.py"):
        assert imports(path) <= {"rules", "rotation"}
        names = {n.name if isinstance(n, ast.alias) else "" for n in ast.walk(ast.parse(path.read_text()))}
        assert not names & {"numpy", "random"}
