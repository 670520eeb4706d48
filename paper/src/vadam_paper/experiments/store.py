"""The result store: one line of JSON for each finished cell, safe against kill -9 at any moment.

A line is appended with one write and flushed to disk before the next cell starts. A kill in the middle of that write
leaves a last line without a newline: readers skip it and the next writer truncates it. Rows of another configuration
are kept but not read. One process writes at a time; a second one is refused.
"""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.jsonify import dumps, jsonify
from vadam_paper.experiments.lock import try_lock
from vadam_paper.experiments.timing import Duration

Row = dict[str, Any]
FIELDS: dict[str, Any] = {
    "cell": str,
    "seconds": int | float,
    "cpu_seconds": int | float,
    "result": object,
}
"""Fields of every row besides its configuration, with their types."""
COMMITS = ("commit", "landed")


def read_rows(path: Path, fingerprint: str) -> dict[str, Row]:
    """Return the finished cells of a configuration by key; of duplicate keys the first row counts."""
    content = path.read_bytes() if path.exists() else b""
    rows: dict[str, Row] = {}
    for number, line in enumerate(content[: _length_of_whole_lines(content)].splitlines(), start=1):
        try:
            row = json.loads(line)
            if row["config"] == fingerprint:
                cell = row["cell"]
                for field, kind in FIELDS.items():
                    if not isinstance(row[field], kind):
                        raise TypeError(f"{field} is {row[field]!r}")
                if not all(isinstance(row.get(field), str | None) for field in COMMITS):
                    raise TypeError("a commit is a text")
                rows.setdefault(cell, row)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ExperimentError(
                f"Line {number} of {path} is not a row of results. Delete that line, or start over with --no-resume."
            ) from None
    return rows


class Store:
    """The writer of ``rows.jsonl`` in a folder, which it locks between ``__enter__`` and ``__exit__``."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.path = folder / "rows.jsonl"
        self.fingerprint = fingerprint
        self._file: IO[bytes]

    def __enter__(self) -> "Store":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        if not try_lock(self._file):
            self._file.close()
            raise ExperimentError(
                f"{self.folder} is in use by another run (process {_owner(self.folder)}). "
                "Wait for it, stop it, or give another --out."
            )
        content = self.path.read_bytes()
        if (whole := _length_of_whole_lines(content)) < len(content):
            self._file.truncate(whole)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def rows(self) -> dict[str, Row]:
        return read_rows(self.path, self.fingerprint)

    def append(self, cell: str, result: dict[str, Any], elapsed: Duration, commit: str | None = None) -> Row:
        made = {"cell": cell, "config": self.fingerprint, "commit": commit}
        row = {**made, **elapsed._asdict(), "result": jsonify(result)}
        self._file.write(dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return row

    def clear(self) -> None:
        self._file.truncate(0)


def _length_of_whole_lines(content: bytes) -> int:
    return content.rfind(b"\n") + 1


def _owner(folder: Path) -> str:
    try:
        return str(json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["running"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "unknown"
