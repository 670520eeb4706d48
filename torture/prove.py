"""Prove that the torture can fail: break a copy of the code, a line at a time, and see which case notices.

``python -m torture --prove [KIND ...]`` adds what was broken and what caught it to the record.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from torture import ROOT
from torture.case import Break, Kind
from torture.record import Record

COPIED = ("src", "paper/src", "paper/tests/experiments", "tests", "torture")
SECONDS = 600


def main(kinds: list[str], out: Path, seed: int) -> int:
    """Break every line that the kinds name; return 1 if a break was not caught."""
    record = Record(out, seed)
    record.resume()
    missed = 0
    for name in kinds:
        kind = import_module(f"torture.{name}").KIND
        found = []
        for one in kind.breaks:
            caught = try_break(kind, one, seed)
            missed += caught is None
            found.append(_entry(one, caught))
            print(
                f"{name}: {one.path} {'caught: ' + caught.splitlines()[0][:150] if caught else 'NOT CAUGHT'}",
                flush=True,
            )
        section = record.kinds[name] if name in record.kinds else record.section(name)
        section.broken = found
        record.write()
    return bool(missed)


def try_break(kind: Kind, one: Break, seed: int) -> str | None:
    """Return the first failure of a part in a copy of the code with one line broken; None if there is no failure."""
    with tempfile.TemporaryDirectory(prefix="torture-broken-") as name:
        copy = Path(name) / "copy"
        for folder in COPIED:
            shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        break_line(copy / one.path, one)
        record = Path(name) / "record.json"
        command = [sys.executable, "-m", "torture", kind.name, "--part", one.part, "--jobs", "1", "--seed", str(seed)]
        paths = os.pathsep.join([str(copy / "src"), str(copy / "paper" / "src")])
        environment = {**os.environ, "PYTHONPATH": paths}
        with suppress(subprocess.TimeoutExpired):
            command += ["--stop", "--out", str(record)]
            subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS)
        failures = _failures(record, kind.name)
    return _shortly(failures[0]["what"]) if failures else None


def _shortly(failure: str) -> str:
    """Return the line of a failure that says most: the last of a traceback, otherwise the first."""
    lines = failure.strip().splitlines()
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


def break_line(path: Path, one: Break) -> None:
    """Replace the line in a file; raise if it is not there exactly once."""
    text = path.read_text()
    if text.count(one.line) != 1:
        raise LookupError(f"{one.path} does not contain exactly once: {one.line!r}")
    path.write_text(text.replace(one.line, one.broken))


def _failures(record: Path, kind: str) -> list[dict[str, Any]]:
    if not record.exists():
        return []
    parts = json.loads(record.read_text())["kinds"].get(kind, {}).get("parts", {})
    return [failure for part in parts.values() for failure in part["failures"]]


def _entry(one: Break, caught: str | None) -> dict[str, Any]:
    number = (ROOT / one.path).read_text().split(one.line)[0].count("\n") + 1
    return {
        "path": one.path,
        "line": number,
        "was": one.line.strip(),
        "broken": one.broken.strip(),
        "part": one.part,
        "would": one.would,
        "caught": caught,
    }
