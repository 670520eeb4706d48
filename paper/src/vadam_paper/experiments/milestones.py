"""Long runs in stretches: each is recorded at several points of its way, and goes on from one to the next."""

from typing import Any

from vadam_paper.experiments.results import Recorded


def key(method: str, number: int, end: int) -> str:
    return f"{method}-{number}-{end}"


def parse_key(key: str) -> tuple[str, int, int]:
    method, number, end = key.rsplit("-", 2)
    return method, int(number), int(end)


def lengths(ends: tuple[int, ...]) -> dict[int, int]:
    """How long the stretch is that ends there."""
    return {end: end - start for start, end in zip((0, *ends), ends, strict=False)}


def latest_by_number(run: Recorded, method: str) -> dict[int, dict[str, Any]]:
    """Of each run of a method, by its number, the record that goes furthest."""
    found: dict[int, tuple[int, str]] = {}
    for cell in run.cells:
        name, number, end = parse_key(cell)
        if name == method:
            found[number] = max(found.get(number, (0, "")), (end, cell))
    return {number: run[cell] for number, (_, cell) in sorted(found.items())}


def latest(run: Recorded, method: str) -> list[dict[str, Any]]:
    """The same, in the order of the numbers."""
    return list(latest_by_number(run, method).values())
