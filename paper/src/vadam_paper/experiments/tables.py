"""The table of an artefact: the paper's number beside ours under either protocol."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def median_and_quartiles(values: Sequence[float], digits: int = 4) -> str:
    low, middle, high = values
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
