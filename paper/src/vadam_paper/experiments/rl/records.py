"""Read recorded trials for tables, figures and claims."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vadam_paper.experiments.milestones import latest as trials
from vadam_paper.experiments.results import Recorded

__all__ = ["COLOURS", "NAMES", "curve", "final", "horizon", "speed", "trials", "unrest"]

NAMES = {
    "vadam": "Vadam",
    "vadagrad": "VadaGrad",
    "adam-plain": "Adam-Plain",
    "adam-explore": "Adam-Explore",
    "sgd-plain": "SGD-Plain",
    "sgd-explore": "SGD-Explore",
}
COLOURS = {
    "vadam": "#e0533d",
    "vadagrad": "#3b82c4",
    "adam-plain": "#1a9850",
    "adam-explore": "#8e6bbf",
    "sgd-plain": "#8b949e",
    "sgd-explore": "#c98a1b",
}


def horizon(run: Recorded, methods: tuple[str, ...]) -> int:
    """Return the time step that every trial of these methods has reached; 0 if a method has no trial."""
    return min((min((trial["step"][-1] for trial in trials(run, m)), default=0) for m in methods), default=0)


def speed(trial: Mapping[str, Any], until: int) -> float:
    """Return the mean test return up to a time step, without the start; it is higher for a faster learner."""
    step, mean = np.asarray(trial["step"]), np.asarray(trial["mean"], dtype=float)
    return float(mean[(step > 0) & (step <= until)].mean())


def final(trial: Mapping[str, Any], until: int) -> float:
    """Return the mean of the last 50 test returns up to a time step, as the authors' program prints it."""
    step, mean = np.asarray(trial["step"]), np.asarray(trial["mean"], dtype=float)
    return float(mean[step <= until][-50:].mean())


def unrest(trial: Mapping[str, Any], until: int) -> float:
    """Return the mean distance of a test return from the middle of its two neighbours.

    It is zero for a steady climb.
    """
    step, mean = np.asarray(trial["step"]), np.asarray(trial["mean"], dtype=float)
    return float(np.abs(np.diff(mean[step <= until], n=2)).mean() / 2)


def curve(run: Recorded, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return steps, mean and standard error over trials, up to the end of the shortest trial."""
    found = trials(run, method)
    if not found:
        return None
    length = min(len(trial["step"]) for trial in found)
    returns = np.asarray([trial["mean"][:length] for trial in found], dtype=float)
    error = returns.std(0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.zeros(length)
    return np.asarray(found[0]["step"][:length]), returns.mean(0), error
