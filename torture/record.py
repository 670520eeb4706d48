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

from torture import ROOT
from torture.case import Outcome
from vadam import atomic


@dataclass
class Progress:
    """How far a part is: the number of its next case, what its cases found, and those that failed."""

    next: int = 0
    seconds: float = 0.0
    found: Outcome = field(default_factory=Outcome)
    failures: list[dict[str, Any]] = field(default_factory=list)


class Record:
    """The record of a run: seed, commit, machine, and the progress of every part."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.seed = path, seed
        self.commit = commit()
        self.parts: dict[tuple[str, str], Progress] = {}

    def part(self, kind: str, part: str) -> Progress:
        return self.parts.setdefault((kind, part), Progress())

    def failures(self) -> list[dict[str, Any]]:
        return [failure for progress in self.parts.values() for failure in progress.failures]

    def write(self) -> None:
        kinds: dict[str, Any] = {}
        for (kind, part), progress in self.parts.items():
            kinds.setdefault(kind, {})[part] = asdict(progress)
        content = {"commit": self.commit, "seed": self.seed, "machine": machine(), "kinds": kinds}
        atomic.write_text(self.path, json.dumps(content, indent=1) + "\n")

    def resume(self) -> None:
        """Go on from what the file holds; raise SystemExit if it is of another run."""
        if not self.path.exists():
            return
        content = json.loads(self.path.read_text())
        for name in ("commit", "seed"):
            if content[name] != getattr(self, name):
                raise SystemExit(
                    f"{self.path} is of {name} {content[name]}, not {getattr(self, name)}: give another --out, or no --resume"
                )
        for kind, parts in content["kinds"].items():
            for part, saved in parts.items():
                self.parts[kind, part] = Progress(**{**saved, "found": Outcome(**saved["found"])})


def commit() -> str:
    """Return the commit of the tree, with a + where files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "paper/src", "tests", "torture/*.py")
    return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}
