"""What a run has found, as JSON that is replaced atomically after every case."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import vadam
from torture import ROOT
from torture.case import Outcome
from vadam import atomic


@dataclass
class Progress:
    """The progress of a part: the number of its next case, the findings of its cases, and those that failed."""

    next: int = 0
    seconds: float = 0.0
    found: Outcome = field(default_factory=Outcome)
    failures: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Section:
    """The record of one kind: where it was run, the progress of its parts, and what it catches when code is broken."""

    commit: str
    seed: int
    machine: dict[str, Any]
    parts: dict[str, Progress] = field(default_factory=dict)
    broken: list[dict[str, Any]] = field(default_factory=list)
    remark: str = ""  # what became of its failures, written by hand


class Record:
    """The record of one or more runs: a section for each kind, with its own commit."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.seed = path, seed
        self.commit = commit()
        self.kinds: dict[str, Section] = {}

    def section(self, kind: str) -> Section:
        """Return the section of a kind; what another commit or seed has found is started over."""
        known = self.kinds.get(kind)
        if known is None or (known.commit, known.seed) != (self.commit, self.seed):
            fresh = Section(self.commit, self.seed, machine(), broken=known.broken if known else [])
            self.kinds[kind] = fresh
        return self.kinds[kind]

    def part(self, kind: str, part: str) -> Progress:
        return self.section(kind).parts.setdefault(part, Progress())

    def failures(self) -> list[dict[str, Any]]:
        return [f for section in self.kinds.values() for part in section.parts.values() for f in part.failures]

    def write(self) -> None:
        content = {"kinds": {name: asdict(section) for name, section in self.kinds.items()}}
        atomic.write_text(self.path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def resume(self) -> None:
        """Go on from what the file holds."""
        if not self.path.exists():
            return
        for kind, saved in json.loads(self.path.read_text())["kinds"].items():
            parts = {
                name: Progress(**{**part, "found": Outcome(**part["found"])}) for name, part in saved["parts"].items()
            }
            self.kinds[kind] = Section(**{**saved, "parts": parts})


def commit() -> str:
    """Return the commit of the tree, with a + where files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "paper/src", "tests", "torture/*.py")
    return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")


def machine() -> dict[str, Any]:
    system = f"{platform.system()} {platform.machine()}"
    return {
        "system": system,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "vadam": vadam.__version__,
    }
