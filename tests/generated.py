"""Write what follows from the optimizers and their rules: exports, the list of the API page, tables of documentation.

    python tests/generated.py      writes the files; tests/test_generated.py compares them

An optimizer is a class of ``src/vadam/optim`` with a ``rule``. A table stands in a page between two comments.

| comment before the table | the table shows | from |
|---|---|---|
| ``<!-- arguments of NAME -->`` | the arguments of the rule NAME | the rule's declaration |
| ``<!-- optimizers -->`` | all optimizers | the front matter of each algorithm's page |
| ``<!-- imports -->`` | which part of the library imports which | the sources |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from test_architecture import LAYERS, SOURCE, imports
from vadam.rules import RULES, binding
from vadam.rules.arguments import REQUIRED, Argument

ROOT = Path(__file__).parents[1]
OPTIM, DOCS = ROOT / "src" / "vadam" / "optim", ROOT / "docs"
EXPORTS, API, ARCHITECTURE = OPTIM / "__init__.py", DOCS / "api.md", DOCS / "architecture.md"
CHOOSING = DOCS / "choosing.md"
BASE = "VariationalOptimizer"


@cache
def optimizers() -> dict[str, str]:
    """Return the module of every class of ``vadam.optim`` that names its rule, by the name of the class."""
    return dict(sorted(_optimizers(), key=lambda found: _order(found[0])))


def _optimizers() -> Iterator[tuple[str, str]]:
    for path in OPTIM.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            assigned = (
                [x.targets[0] for x in node.body if isinstance(x, ast.Assign)] if isinstance(node, ast.ClassDef) else []
            )
            if any(isinstance(target, ast.Name) and target.id == "rule" for target in assigned):
                yield node.name, path.stem


def _order(name: str) -> tuple[bool, str]:
    """Return the place of a name among others: names in capitals first, as ruff sorts them."""
    return not name.isupper(), name


def exports() -> str:
    """Return the text of ``vadam/optim/__init__.py``."""
    modules = {BASE: "base", **optimizers()}
    lines = [f"from vadam.optim.{module} import {name}" for name, module in sorted(modules.items(), key=lambda x: x[1])]
    names = "".join(f'    "{name}",\n' for name in sorted(modules, key=_order))
    head = '"""Optimizers: the rules of ``vadam.rules`` behind ``torch.optim.Optimizer``. Written by tests/generated.py."""\n\n'
    return head + "\n".join(lines) + f"\n\n__all__ = [\n{names}]\n"


def api(page: str) -> str:
    """Return the API page with a line for every optimizer."""
    (before, block, after) = re.split(r"(?<=currentmodule:: vadam\n\n)((?:\.\. autoclass:: \w+\n)+)", page, maxsplit=1)
    names = _in_listed_order(re.findall(r"autoclass:: (\w+)", block))
    return before + "".join(f".. autoclass:: {name}\n" for name in names) + after


def _in_listed_order(listed: list[str]) -> list[str]:
    """Return the names of all optimizers: those that are listed in their order, new ones behind them."""
    return [name for name in dict.fromkeys([*listed, *optimizers()]) if name in optimizers()]


def algorithm_page(name: str) -> Path:
    """Return the path of the page of an optimizer."""
    return DOCS / "algorithms" / f"{optimizers()[name].replace('_', '-')}.md"


def front_matter(page: Path) -> dict[str, str]:
    """Return the fields between the two lines ``---`` at the top of a page."""
    _, fields, _ = page.read_text().split("---\n", 2)
    return dict(line.split(": ", 1) for line in fields.splitlines())


def with_optimizers(page: str) -> str:
    """Return a page with the table of all optimizers; each name is a link to its page."""
    before, rest = page.split("<!-- optimizers -->\n", 1)
    block, after = rest.split("<!-- end -->\n", 1)
    rows = ""
    for name in _in_listed_order(re.findall(r"^\| \[`(\w+)`", block, flags=re.MULTILINE)):
        path = algorithm_page(name)
        fields = front_matter(path)
        shown = f"[`{name}`](algorithms/{path.name})"
        rows += f"| {shown} | {fields['use']} | {fields['curvature']} | {fields['memory']} |\n"
    head = "| optimizer | when to use | curvature ĥ | vectors of state |\n|---|---|---|---|\n"
    return f"{before}<!-- optimizers -->\n{head}{rows}<!-- end -->\n{after}"


def with_tables(page: str) -> str:
    """Return a page with all its tables of arguments."""
    return re.sub(
        r"<!-- arguments of (\w+) -->\n.*?<!-- end -->\n",
        lambda found: f"<!-- arguments of {found[1]} -->\n{table(found[1])}<!-- end -->\n",
        page,
        flags=re.DOTALL,
    )


def table(name: str) -> str:
    """Return what a rule declares as Markdown: its arguments, and its state below them."""
    rule = RULES[name]
    rows = "".join(f"| `{a.name}` | {_default(a)} | {_allowed(a)} | {a.description} |\n" for a in rule.ARGUMENTS)
    vectors, scalars = binding.vector_fields(rule), binding.scalar_fields(rule)
    numbers = (
        f", and the numbers {_code(scalars)}"
        if len(scalars) > 1
        else f", and the number {_code(scalars)}"
        if scalars
        else ""
    )
    return (
        f"| argument | default | allowed | meaning |\n|---|---|---|---|\n{rows}\nState\n: {_code(vectors)}{numbers}.\n"
    )


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _default(argument: Argument) -> str:
    return "required" if argument.default is REQUIRED else f"`{argument.default!r}`"


def _allowed(argument: Argument) -> str:
    return "`True`, `False`" if argument.interval == "bool" else argument.interval


def import_graph() -> str:
    """Return the parts of the library, a layer a row, each with the parts that it imports."""
    rows = ""
    for number, layer in enumerate(LAYERS, start=1):
        for part in sorted(layer):
            paths = (SOURCE / part).rglob("*.py") if (SOURCE / part).is_dir() else [SOURCE / f"{part}.py"]
            found = sorted({other for path in paths for other in imports(path)} - {part})
            rows += f"| {number} | `{part}` | {_code(tuple(found))} |\n"
    return f"| layer | part | imports |\n|---|---|---|\n{rows}"


def architecture(page: str) -> str:
    """Return the architecture page with the table of imports."""
    before, rest = page.split("<!-- imports -->\n")
    return f"{before}<!-- imports -->\n{import_graph()}<!-- end -->\n{rest.split('<!-- end -->' + chr(10), 1)[1]}"


def files() -> dict[Path, str]:
    """Return the text that each generated file should have."""
    texts = {
        EXPORTS: exports(),
        API: api(API.read_text()),
        ARCHITECTURE: architecture(ARCHITECTURE.read_text()),
        CHOOSING: with_optimizers(CHOOSING.read_text()),
    }
    for path in (DOCS / "algorithms").glob("*.md"):
        texts[path] = with_tables(path.read_text())
    return texts


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
