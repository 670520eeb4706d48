"""Tests replace public names only: a private one may change without notice."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for folder in ("tests", "paper/tests") for path in (ROOT / folder).rglob("*.py"))
PRIVATE = re.compile(r"(^|[.])_[a-z]\w*$")


def private_patches(source: str) -> Iterator[str]:
    """Yield the private names that a file replaces by ``monkeypatch.setattr`` or ``mock.patch``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in ("setattr", "delattr", "patch", "object"):
                continue
            names = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            yield from (name for name in names if PRIVATE.search(name))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_name_is_replaced(path: Path) -> None:
    assert not [*private_patches(path.read_text())]


@pytest.mark.parametrize(
    "line", ['monkeypatch.setattr(opt, "_rule", None)', 'mock.patch("a.b._c")', 'patch.object(a, "_c")']
)
def test_a_private_name_is_found(line: str) -> None:
    assert [*private_patches(line)] == re.findall(r'"(.*)"', line)
