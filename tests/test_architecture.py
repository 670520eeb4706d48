"""Arrows point down only: which part of the package may import which."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "vadam"

# Each layer may import the layers below it, and modules of its own name.
LAYERS = [
    {"cli"},
    {"report", "experiments", "estimators", "integrations"},
    {"ensemble", "optim", "exact", "baselines", "predict", "elbo", "data"},
    {"curvature", "metrics", "persist", "forward", "schedules"},
    {"rules", "gaussian", "likelihoods", "counter", "compiling"},
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
# Inside a layer, who may use whom. Not listed: nobody. `experiments` uses `estimators` never, `optim` and `ensemble` never each other.
BESIDE = {
    "report": {"experiments"},
    "experiments": {"report", "integrations"},
    "estimators": set(),
    "elbo": {"predict"},
    "exact": {"data"},
    "baselines": {"predict"},
    "persist": set(),
    "metrics": set(),
}


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
        allowed = LEVEL[other] > LEVEL[mine] or other in BESIDE.get(mine, ())
        assert allowed, f"{path.relative_to(SOURCE)} imports vadam.{other}, which is not below vadam.{mine}"


def test_experiments_do_not_import_one_another() -> None:
    folders = [p for p in (SOURCE / "experiments").iterdir() if (p / "run.py").exists()]
    names = {p.name for p in folders}
    for folder in folders:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vadam_paper.experiments."):
                    other = node.module.split(".")[2]
                    assert other == folder.name or other not in names, f"{path} imports {other}"


def test_rules_know_only_torch() -> None:
    for path in (SOURCE / "rules").glob("*.py"):
        assert imports(path) <= {"rules"}
        names = {n.name if isinstance(n, ast.alias) else "" for n in ast.walk(ast.parse(path.read_text()))}
        assert not names & {"numpy", "random"}
