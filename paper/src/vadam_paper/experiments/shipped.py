"""Data that the authors published, in the form of recorded results, so that the same judges read them.

Each experiment that has any keeps small numbers derived from them in ``shipped.json``, with their source.
"""

import json
from pathlib import Path
from typing import Any

from vadam_paper.experiments.intervals import Summary
from vadam_paper.experiments.results import Recorded, Results


def read(folder: Path) -> dict[str, Any]:
    """Return the content of ``shipped.json``."""
    content: dict[str, Any] = json.loads((folder / "shipped.json").read_text(encoding="utf-8"))
    return content


def results(cells: dict[str, Any], config: dict[str, Any] | None = None) -> Results:
    """Return published numbers as results of the authors' protocol; a box becomes a summary."""
    found = {cell: {name: _sample(value) for name, value in result.items()} for cell, result in cells.items()}
    return Results({"authors": Recorded("shipped", "authors", {"config": config or {}}, found)})


def _sample(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"centre", "low", "high", "n"}:
        return Summary(**value)
    if isinstance(value, dict):
        return {name: _sample(item) for name, item in value.items()}
    return value
