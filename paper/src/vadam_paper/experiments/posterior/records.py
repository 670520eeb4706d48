"""Read what was recorded: one number for each seed, and differences seed by seed."""

from typing import Any

import numpy as np

from vadam_paper.experiments.results import Recorded

CONTINUAL = {
    "adam": "Adam, fine-tuned task after task",
    "vadam": "Vadam, the posterior before as prior",
    "vadam-ggn": "VadamGGN, the posterior before as prior",
    "joint": "Adam on all tasks at once",
}
MERGING = {
    "half": "one half (Vadam)",
    "adam-average": "plain average of the weights, Adam",
    "average": "plain average of the means, Vadam",
    "merged": "merged posterior, its mean",
    "predictive": "merged posterior, predictive",
    "joint": "both halves at once (Vadam), mean",
    "joint_predictive": "both halves at once (Vadam), predictive",
}
OF_MERGED = ("half", "predictive", "joint", "joint_predictive")
"""Scores that stand in the cells of merged posteriors."""
PRUNING = {
    ("vadam", "snr"): "Vadam, by signal-to-noise ratio",
    ("vadam", "magnitude"): "Vadam, by magnitude",
    ("adam", "magnitude"): "Adam, by magnitude",
}
FRACTIONS = (0.0, 0.5, 0.75, 0.9, 0.95)


def cells(run: Recorded, study: str, name: str) -> list[dict[str, Any]]:
    keys = (f"{study}.{name}.{seed}" for seed in range(run.config["seeds"]))
    return [run[key] for key in keys if key in run]


def continual(run: Recorded, method: str, what: str = "after_last") -> np.ndarray:
    """Return the accuracies [seeds, tasks] of a method."""
    return np.asarray([cell[what] for cell in cells(run, "continual", method)], dtype=float)


def merging(run: Recorded, name: str, what: str) -> np.ndarray:
    """Return one score for each seed."""
    if name in OF_MERGED:
        return np.asarray([cell[name][what] for cell in cells(run, "merge", "merged")], dtype=float)
    return np.asarray([cell[what] for cell in cells(run, "merge", name)], dtype=float)


def pruning(run: Recorded, method: str, by: str, what: str) -> np.ndarray:
    """Return scores [seeds, fractions]."""
    return np.asarray([cell[by][what] for cell in cells(run, "prune", method)], dtype=float)


def apart(mine: np.ndarray, its: np.ndarray) -> np.ndarray:
    """Return the differences for the seeds that both have."""
    n = min(len(mine), len(its))
    return mine[:n] - its[:n]
