"""The manifest beside the rows: what was run, with what, and how long it took.

``commit`` is that of the last writing; every row has its own.
"""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from vadam import atomic
from vadam_paper.experiments.config import Config
from vadam_paper.experiments.store import Row

PACKAGES = ("vadam", "torch", "numpy", "scipy", "gymnasium", "mujoco", "stable-baselines3")


def write_manifest(
    folder: Path, config: Config, rows: dict[str, Row], cells: int, *, jobs: int, running: bool
) -> dict[str, Any]:
    manifest = {
        "experiment": config.experiment,
        "preset": config.preset,
        "protocol": config.protocol,
        "seed": config.seed,
        "config": config.as_dict(),
        "config_hash": config.fingerprint,
        "commit": commit(),
        "versions": {"python": platform.python_version(), **_versions()},
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),  # other ones sum in another order
        "jobs": jobs,
        "cells": cells,
        "cells_done": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows.values()), 1),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows.values()), 1),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if running:
        manifest["running"] = os.getpid()
    atomic.write_text(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / "manifest.json"
    if not path.exists():
        return None
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return manifest


@cache
def commit() -> str | None:
    """The commit of the source tree, ``+`` behind it where files are changed; None where it is not a git checkout."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(here, "status", "--porcelain", "--", ":/src", str(here.parent)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
