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
    """Yield the private names that a file replaces by ``monkeypatch.setattr`` or ``mock.patch``, also those of a parametrised test."""
    tree = ast.parse(source)
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        given = {arg.id for call in calls if _patches(call) for arg in call.args[:2] if isinstance(arg, ast.Name)}
        for call in calls:
            if ast.unparse(call.func).endswith("parametrize") and given & {
                *re.findall(r"\w+", ast.unparse(call.args[0]))
            }:
                strings = (node.value for node in ast.walk(call) if isinstance(node, ast.Constant))
                yield from (name for name in strings if isinstance(name, str) and PRIVATE.search(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _patches(node):
            names = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            yield from (name for name in names if PRIVATE.search(name))


def _patches(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("setattr", "delattr", "patch", "object")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_name_is_replaced(path: Path) -> None:
    assert not [*private_patches(path.read_text())]


@pytest.mark.parametrize(
    "line", ['monkeypatch.setattr(opt, "_rule", None)', 'mock.patch("a.b._c")', 'patch.object(a, "_c")']
)
def test_a_private_name_is_found(line: str) -> None:
    assert [*private_patches(line)] == re.findall(r'"(.*)"', line)


def test_a_private_name_of_a_parametrised_test_is_found() -> None:
    source = """
@pytest.mark.parametrize("where", ["_captured", "public"])
def test(where, monkeypatch):
    monkeypatch.setattr(opt, where, None)
"""
    assert [*private_patches(source)] == ["_captured"]
