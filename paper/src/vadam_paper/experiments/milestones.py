"""Record long runs at several milestones; each resumes from the one before."""

from typing import Any

from vadam_paper.experiments.results import Recorded


def key(method: str, number: int, end: int) -> str:
    """Return the key of the cell that ends at a milestone."""
    return f"{method}-{number}-{end}"


def parse_key(key: str) -> tuple[str, int, int]:
    """Return method, number and end of a cell's key."""
    method, number, end = key.rsplit("-", 2)
    return method, int(number), int(end)


def lengths(ends: tuple[int, ...]) -> dict[int, int]:
    """Return the length from the previous milestone for each milestone."""
    return {end: end - start for start, end in zip((0, *ends), ends, strict=False)}


def latest_by_number(run: Recorded, method: str) -> dict[int, dict[str, Any]]:
    """Return the longest record of each run of a method, by the number of the run."""
    found: dict[int, tuple[int, str]] = {}
    for cell in run.cells:
        name, number, end = parse_key(cell)
        if name == method:
            found[number] = max(found.get(number, (0, "")), (end, cell))
    return {number: run[cell] for number, (_, cell) in sorted(found.items())}


def latest(run: Recorded, method: str) -> list[dict[str, Any]]:
    """Return the longest record of each run of a method, in the order of the numbers."""
    return list(latest_by_number(run, method).values())
