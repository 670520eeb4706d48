"""The manifest beside the rows: what was run, with which versions, and how long it took.

``commit`` is that of the last write; every row has its own.
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

import vadam
import vadam_paper
from vadam import atomic
from vadam_paper.experiments.config import Config
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.store import Row

PACKAGES = ("vadam", "torch", "numpy", "scipy", "gymnasium", "mujoco", "stable-baselines3")

FIELDS: dict[str, Any] = {
    "preset": str,
    "protocol": str,
    "config": dict,
    "config_hash": str,
    "commit": str | None,
    "versions": dict,
    "seconds": int | float,
    "cpu_seconds": int | float,
}
"""Fields that readers rely on, with their types."""
LARGEST_SECONDS = 1e15


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
        "instructions": torch.backends.cpu.get_cpu_capability(),  # other instruction sets sum in another order
        "jobs": jobs,
        "cells": cells,
        "cells_done": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows.values()), 1),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows.values()), 1),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    peak = max((row["result"].get("megabytes", 0.0) for row in rows.values()), default=0.0)
    if peak:
        manifest["peak_megabytes"] = peak  # of the training that took the most
    if running:
        manifest["running"] = os.getpid()
    atomic.write_text(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a run, or None if there is none."""
    path = folder / "manifest.json"
    if not path.exists():
        return None
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        for field, kind in FIELDS.items():
            if not isinstance(manifest[field], kind):
                raise ValueError(f"{field} is {manifest[field]!r}")
            if field in ("seconds", "cpu_seconds") and not 0 <= manifest[field] < LARGEST_SECONDS:
                raise ValueError(f"{field} is {manifest[field]!r:.50}")
        if not isinstance(manifest["versions"]["torch"], str):
            raise ValueError(f"the version of torch is {manifest['versions']['torch']!r}")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise ExperimentError(f"{path} is damaged: {reason}. Delete it; the next run writes it again.") from error
    return manifest


@cache
def commit() -> str | None:
    """Return the commit of the source tree, with ``+`` if files are changed; None outside vadam's repository."""
    packages = {"src/vadam": Path(vadam.__file__).parent, "paper/src/vadam_paper": Path(vadam_paper.__file__).parent}
    states = set()
    try:
        for path, package in packages.items():
            if _git(package, "ls-files", "--full-name", "__init__.py") != f"{path}/__init__.py":
                return None  # inside another repository, e.g. installed there or copied into it
            head = _git(package, "rev-parse", "--short=12", "HEAD")
            changed = _git(package, "status", "--porcelain", "--", *(f":/{folder}" for folder in packages))
            states.add(head + ("+" if changed else ""))
    except (OSError, subprocess.CalledProcessError):
        return None
    return states.pop() if len(states) == 1 else None  # None if the packages come from two checkouts


def _git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, without the GIT_* variables that a hook may have set, and return its output."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True, text=True).stdout.strip()


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
