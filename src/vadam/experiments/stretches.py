"""Long runs in stretches: each is recorded at several points of its way, and goes on from one to the next."""

from typing import Any

from vadam.experiments.results import Recorded


def key(method: str, number: int, end: int) -> str:
    return f"{method}-{number}-{end}"


def parsed(key: str) -> tuple[str, int, int]:
    method, number, end = key.rsplit("-", 2)
    return method, int(number), int(end)


def lengths(ends: tuple[int, ...]) -> dict[int, int]:
    """How long the stretch is that ends there."""
    return {end: end - start for start, end in zip((0, *ends), ends, strict=False)}


def furthest(run: Recorded, method: str) -> list[dict[str, Any]]:
    """Of each run of a method the record that goes furthest, in the order of their numbers."""
    found: dict[int, tuple[int, str]] = {}
    for cell in run.cells:
        name, number, end = parsed(cell)
        if name == method:
            found[number] = max(found.get(number, (0, "")), (end, cell))
    return [run[cell] for _, (_, cell) in sorted(found.items())]
