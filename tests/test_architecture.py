"""Arrows point down only: which part of the package may import which."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "vadam"

# Each layer may import the layers below it, and modules of its own name. Inside a layer nobody imports another.
LAYERS = [
    {"cli"},
    {"demo", "public"},
    {"report", "estimators", "integrations"},
    {"tuning", "recipe"},
    {"ensemble", "optim", "exact", "baselines", "bound", "calibration", "plot"},
    {"prediction"},
    {"forward"},
    {"backends", "curvature", "metrics", "persist", "schedules"},
    {"rules", "gaussian", "likelihoods", "counter_rng", "compiling", "atomic", "data"},
    {"special", "rotation", "default_device", "functional", "fabric", "interrupts", "module_state", "seeding"},
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


# ``__main__`` is the command line under another name.
FILES = sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.name not in ("__init__.py", "__main__.py"))


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


def test_the_module_is_the_command_line() -> None:
    assert imports(SOURCE / "__main__.py") == {"cli"}


def test_rules_know_only_torch() -> None:
    assert not imports(SOURCE / "rotation.py")
    for path in (SOURCE / "rules").glob("*.py"):
        assert imports(path) <= {"rules", "rotation"}
        names = {n.name if isinstance(n, ast.alias) else "" for n in ast.walk(ast.parse(path.read_text()))}
        assert not names & {"numpy", "random"}


# The walks of docs/architecture.md ----------------------------------------------------------------------------------------------

ARCHITECTURE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
WALKS = dict(re.findall(r"^## (A [^\n]*)\n(.*?)(?=^## )", ARCHITECTURE, re.MULTILINE | re.DOTALL))


def walk(text: str) -> list[str]:
    """Return the files of a walk, without those that stand beside the path (├→)."""
    return re.findall(r"^    (\w+(?:/\w+)*\.py) ", text, re.MULTILINE)


def beside(text: str) -> list[str]:
    return re.findall(r"^      ├→ (\S+\.py) ", text, re.MULTILINE)


def modules(path: Path) -> Iterator[Path]:
    """Yield the files of the library that a file imports by name; importing a module runs the ``__init__`` of its package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "vadam":
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                place = SOURCE.joinpath(*name.split(".")[1:])
                files = (place.with_suffix(".py"), place / "__init__.py", place.parent / "__init__.py")
                yield from (file for file in files if file.exists() and file != SOURCE / "__init__.py")


@cache
def reached(path: Path) -> set[Path]:
    """Return all files that a file imports, directly or through others; ``vadam.rules`` finds its modules by itself."""
    found, todo = set(), [path]
    while todo:
        for file in modules(todo.pop()):
            new = {file} | ({*file.parent.glob("*.py")} if file == SOURCE / "rules" / "__init__.py" else set())
            todo += new - found
            found |= new
    return found


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_follows_the_imports(title: str) -> None:
    files = [SOURCE / name for name in walk(WALKS[title])]
    assert len(files) > 3
    for above, below in pairwise(files):
        assert below in reached(above), f"{above.relative_to(SOURCE)} does not lead to {below.relative_to(SOURCE)}"


def test_the_page_shows_all_layers() -> None:
    table = ARCHITECTURE.split("| layer | what is in it |\n|---|---|\n")[1].split("\n\n")[0]
    assert [{*re.findall(r"`(\w+)`", row.split("|")[1])} for row in table.splitlines()] == LAYERS


def in_table(text: str, title: str) -> list[str]:
    """Return the files in the first column of a table."""
    return re.findall(r"^\| `(\S+\.py)` \|", text.split(f"| file | {title} |")[1].split("\n\n")[0], re.MULTILINE)


def test_the_walk_of_a_step_counts_its_lines() -> None:
    text = next(text for title, text in WALKS.items() if title.startswith("A step"))
    files = [SOURCE / name for name in (*walk(text), *beside(text))]
    said = re.search(r"Seven files, about ([\d,]+) lines", text)
    assert said is not None
    assert len(files) == 7
    lines = sum(len(path.read_text().splitlines()) for path in files)
    assert lines == pytest.approx(int(said[1].replace(",", "")), abs=25)


def entered(run: Callable[[], Any]) -> set[str]:
    """Return the files of the library whose functions are called."""
    run()  # imports, so that no function is called by them
    found: set[str] = set()

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(before)
    paths = map(Path, found)
    return {path.relative_to(SOURCE).as_posix() for path in paths if path.is_relative_to(SOURCE)}


def test_a_step_enters_the_files_that_the_page_names() -> None:
    import torch

    import vadam

    def run() -> None:
        model = torch.nn.Linear(3, 1)
        opt = vadam.Vadam(model.parameters(), num_data=10, backend="plain")

        def closure() -> Any:
            opt.zero_grad()
            loss = model(torch.ones(2, 3)).square().mean()
            loss.backward()
            return loss

        opt.step(closure)

    text = next(text for title, text in WALKS.items() if title.startswith("A step"))
    named = [*walk(text), *beside(text), *in_table(text, "what it does")]
    assert entered(run) == {*named}
    assert all((SOURCE / name).exists() for name in in_table(text, "what it adds"))


def test_a_prediction_enters_the_files_of_its_walk() -> None:
    import torch

    import vadam

    model = torch.nn.Linear(3, 1).double()
    weights = dict(model.named_parameters())
    post = vadam.MeanFieldGaussian(weights, {name: torch.ones_like(p) for name, p in weights.items()})
    files = entered(lambda: vadam.predict(model, post, torch.ones(2, 3).double(), samples=3, likelihood=None))
    assert {*walk(WALKS["A prediction"])} <= files


def test_a_fit_enters_the_files_of_its_walk() -> None:
    pytest.importorskip("sklearn")
    import numpy as np

    from vadam.estimators import VadamRegressor

    x = np.linspace(-1, 1, 20)[:, None]
    model = VadamRegressor(hidden=(4,), epochs=1, budget=2, folds=2, members=1, random_state=0)
    assert {*walk(WALKS["A fit"])} <= entered(lambda: model.fit(x, x[:, 0]))
