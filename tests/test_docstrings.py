"""Docstrings can be read alone: each names its subject, and one of a function starts with a verb."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "paper/src")
FOLDERS = (*SOURCES, "tests", "paper/tests", "benchmarks", "examples")

# Words that point at the line above, or at nothing.
POINTING = {
    "Of",
    "Those",
    "As",
    "What",
    "Whether",
    "It",
    "They",
    "This",
    "That",
    "These",
    "Its",
    "Their",
    "Who",
    "Which",
}
# Words that start a noun phrase or a condition. Ruff's D401 finds other forms of a verb ("Returns"), but not these.
NOT_A_VERB = POINTING | {
    "A", "Above", "All", "Also", "An", "And", "Any", "At", "Because", "Before", "Both", "But", "By", "Each",
    "Either", "Every", "Few", "For", "Four", "From", "Here", "How", "If", "In", "Into", "Like", "Many",
    "Neither", "New", "No", "None", "Not", "Nothing", "On", "One", "Only", "Or", "Over", "Same", "Several",
    "So", "Some", "The", "There", "Three", "Through", "To", "Two", "Under", "Until", "Up", "When", "Where",
    "Wherever", "While", "With", "Within", "Without",
}  # fmt: skip

# Phrases that a reader has to decode, each with what to write instead.
UNCLEAR = {
    r"of the old\b": "decay rate",
    r"made anew|begun anew": "rebuilt, started again",
    r"\bof now\b": "current",
    r"(is|are) taken for": "counts as, is replaced by",
    r"\b(for|of) who\b": "for the code that",
    r"\bin sight of\b": "near",
    r"\bas it lies\b|\blies? where\b|\blay where\b": "at the same address",
    r"\bran away\b|\brun away\b": "diverged",
    r"\bso many\b.*\bso many\b": "the name of each number",
}


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the docstrings of modules, classes and functions, and the strings below an assignment that describe it."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for before, after in pairwise(body if isinstance(body, list) else []):
            if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                value = after.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield after, value.value.strip()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node, text


def problem(node: ast.AST, text: str, in_sources: bool) -> str | None:
    """Return what is wrong with a docstring, or None."""
    first = text.split()[0].rstrip(".,:;")
    if first in POINTING or text.startswith("The same"):
        return f"starts with {first!r}, which points at something else: name the subject"
    for phrase, instead in UNCLEAR.items():
        if found := re.search(phrase, text):
            return f"says {found[0]!r}: write {instead!r}"
    if not in_sources or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if first in NOT_A_VERB or not re.fullmatch(r"[A-Z][a-z]+(-[a-z]+)?", first):
        return f"starts with {first!r}: start with a verb, such as 'Return'"
    return None


def python_files() -> list[str]:
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [str(path.relative_to(ROOT)) for path in found]


@pytest.mark.parametrize("name", python_files())
def test_docstrings_can_be_read_alone(name: str) -> None:
    found = [
        f"{name}:{getattr(node, 'lineno', 1)} {trouble}"
        for node, text in docstrings(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if (trouble := problem(node, text, name.startswith(SOURCES)))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "Of v.",
        "The same, in order.",
        "Whether it works.",
        "The ELBO in nats.",
        "ĥ = ĝ∘ĝ.",
        "Return the weight of the old.",
    ],
)
def test_an_unclear_docstring_is_found(text: str) -> None:
    [(node, found)] = docstrings(ast.parse(f'def f():\n    """{text}"""'))
    assert problem(node, found, in_sources=True)
