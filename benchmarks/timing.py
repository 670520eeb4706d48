"""Times as ratios: everything that is compared takes turns in one process."""

import json
import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

TURN = 0.02  # seconds


def seconds(steps: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Measure times in rounds in which all methods take turns, so that a busy moment of the machine affects all.

    A turn is one step; of short steps as many as fill it, as in a training, where the caches are the method's own.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            step()  # the caches are still the other method's
            start, count = time.perf_counter(), 0
            while not count or time.perf_counter() - start < TURN:
                step()
                count += 1
            times[name].append((time.perf_counter() - start) / count)
    return times


def ratio(times: list[float], base: list[float]) -> float:
    return statistics.median(t / b for t, b in zip(times, base, strict=True))


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Return the slope of a straight line through log time against log size."""
    x, y = [math.log(s) for s in sizes], [math.log(t) for t in times]
    return statistics.linear_regression(x, y).slope


def machine() -> dict[str, object]:
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "",
    )
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    return {"cpu": cpu or platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0], **versions}


def commit() -> str:
    """Return the commit that is checked out, with a plus sign if other files than recorded results have changed since."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/*results/*")
    return (_git("describe", "--always") or "unknown") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def write(path: Path, results: object, **settings: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "commit": commit(), **settings, "results": results}
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nwrote {path}")
