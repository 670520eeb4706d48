"""Damage bytes and JSON values at random, repeatably: hypothesis draws what is done and where."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

PLACES = st.floats(0, 1, exclude_max=True)
ODD_JSON: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    3,
    2**62,
    10**400,
    1e308,
    -0.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "__init__",
    "../../etc/passwd",
    "a\x00b",
    [],
    [[]],
    [1, 2, 3],
    ["a"],
    {},
    {"name": "__class__"},
    [None],
    [[[[[1]]]]],
    "9" * 400,
    [0] * 1000,
]


@st.composite
def byte_damage(draw: st.DrawFn) -> tuple[str, float, float, int]:
    """Draw an operation, two places as shares of the length, and a byte."""
    how = draw(st.sampled_from(("flip", "cut", "append", "zeros", "repeat", "length", "remove", "swap")))
    return how, draw(PLACES), draw(PLACES), draw(st.integers(1, 255))


def damaged(content: bytes, damage: tuple[str, float, float, int]) -> bytes:
    how, first, second, byte = damage
    a, b = sorted((int(first * len(content)), int(second * len(content))))
    if how == "flip":
        return content[:a] + bytes([content[a] ^ byte]) + content[a + 1 :]
    if how == "cut":
        return content[:a]
    if how == "append":
        return content + bytes([byte]) * (1 + b % 100)
    if how == "zeros":
        return content[:a] + bytes(b - a) + content[b:]
    if how == "repeat":
        return content[:b] + content[a:]
    if how == "length":
        return (byte << (8 * (b % 8))).to_bytes(8, "little") + content[8:]
    if how == "remove":
        return content[:a] + content[b:]
    return content[b:] + content[:b]


@st.composite
def json_damage(draw: st.DrawFn) -> tuple[str, float, Any]:
    """Draw what is done to one value of a tree of JSON values: replaced, removed, renamed or wrapped."""
    how = draw(st.sampled_from(("replace", "replace", "replace", "remove", "rename", "wrap", "deep")))
    values = st.one_of(st.sampled_from(ODD_JSON), st.text(max_size=5), st.integers(), st.floats())
    return how, draw(PLACES), draw(values)


def damaged_tree(tree: Any, damage: tuple[str, float, Any]) -> Any:
    """Return a copy of a tree of dicts and lists with one value changed."""
    how, place, value = damage
    tree = copy.deepcopy(tree)
    places = [*_places(tree)]
    if not places:
        return value
    where, key = places[int(place * len(places))]
    if how == "replace":
        where[key] = copy.deepcopy(value)
    elif how == "remove":
        del where[key]
    elif how == "rename" and isinstance(where, dict):
        where[str(value)] = where.pop(key)
    elif how == "deep":
        for _ in range(200):
            where[key] = [where[key]]
    else:
        where[key] = [where[key]]
    return tree


def _places(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in [*items]:
        yield tree, key
        yield from _places(value)
