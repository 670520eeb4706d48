"""The journal of a search: one JSON object per line. The first line describes the search, every other one is a trial of a cell.

A stopped run may leave its last line incomplete. That line is dropped and its trial is repeated.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vadam.tuning.suggest import Point

_BEGINNING = b'{"search": '
"""The first bytes of every journal."""


class JournalError(ValueError):
    """Raised if a file is not a journal, or is the journal of another search."""


class Trial(NamedTuple):
    """A point, the values of its folds, and their mean, which is −inf if a fold failed."""

    point: Point
    folds: list[float]
    value: float


class Journal:
    """The trials of a search, on disk if there is a path, otherwise in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None, search: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.trials: dict[str, list[Trial]] = {cell: [] for cell in search["cells"]}
        head = json.loads(json.dumps({"search": search}))
        lines = self._read()
        if self.path is not None and len(lines) == 1 and "search" in lines[0]:
            self.path.unlink()  # no trial yet: nothing is lost
            lines = []
        if lines and lines[0] != head:
            raise JournalError(
                f"the journal {self.path} belongs to another search ({_difference(lines[0], head)}): "
                "give another path, or remove the file to start anew"
            )
        for number, line in enumerate(lines[1:], start=2):
            try:
                if line["trial"] == len(self.trials[line["cell"]]):
                    folds = [-math.inf if value is None else _number(value) for value in line["folds"]]
                    point = {name: _number(value) for name, value in line["point"].items()}
                    self.trials[line["cell"]].append(Trial(point, folds, mean(folds)))
            except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
                raise JournalError(
                    f"line {number} of the journal {self.path} is not a trial of this search: remove the line, or the file to start anew"
                ) from error
        if not lines:
            self._append([head])

    def add(self, new: Sequence[tuple[str, Point, list[float]]]) -> None:
        """Add trials, as (cell, point, values of the folds), and write them to disk before returning."""
        lines = []
        for cell, point, folds in new:
            written = [value if math.isfinite(value) else None for value in folds]
            lines.append({"cell": cell, "trial": len(self.trials[cell]), "point": point, "folds": written})
            self.trials[cell].append(Trial(point, folds, mean(folds)))
        self._append(lines)

    def _append(self, lines: list[dict[str, Any]]) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> list[dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return []
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
            if not all(isinstance(line, dict) for line in lines):
                raise ValueError("a line is not an object")
            if content[: len(_BEGINNING)] != _BEGINNING[: len(content)]:
                raise ValueError("its first line does not describe a search")
        except (ValueError, RecursionError) as error:
            raise JournalError(f"{self.path} is not the journal of a search: {error}") from error
        if whole != content:
            os.truncate(self.path, len(whole))
        return lines


def mean(folds: Sequence[float]) -> float:
    """Return the mean of the folds, −inf if one of them is not finite."""
    return sum(folds) / len(folds) if all(map(math.isfinite, folds)) else -math.inf


def _number(value: Any) -> float:
    """Return a number of a journal; raise TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    old, new = found.get("search"), wanted["search"]
    old = old if isinstance(old, dict) else {}
    return next((f"{key} is {old.get(key)!r} there, {new[key]!r} here" for key in new if old.get(key) != new[key]), "?")
