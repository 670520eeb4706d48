"""Read what was recorded: seeds of a method, single numbers, differences."""

from typing import Any

import numpy as np

from vadam_paper.experiments.results import Recorded

NAMES = {
    "adamw": "AdamW",
    "adamw-scaled": "AdamW, temperature-scaled",
    "vadam": "Vadam (Theorem 1)",
    "vadam-paper": "Vadam (paper)",
    "ivon": "IVON",
    "vogn": "VOGN",
}
SIZES = {"all": "100 queries an intent", "ten": "10 queries an intent"}
VARIATIONAL = ("vadam", "ivon", "vogn", "vadam-paper")


def seeds(run: Recorded, size: str, method: str) -> list[dict[str, Any]]:
    keys = (f"test.{size}.{method}.{seed}" for seed in range(run.config["seeds"]))
    return [run[key] for key in keys if key in run]


def values(run: Recorded, size: str, method: str, what: str) -> np.ndarray:
    """Return one number for each seed; ``auroc`` and ``recall`` are of queries out of scope, with ``_mi`` by mutual information."""
    return np.asarray([value(result, what) for result in seeds(run, size, method)], dtype=float)


def value(result: dict[str, Any], what: str) -> float:
    score, _, by_mutual_information = what.partition("_")
    if score in ("auroc", "recall"):
        found = result.get("mutual_information" if by_mutual_information else "entropy")
        if found is None:
            return float("nan")
        return float(found["auroc"] if score == "auroc" else 1 - found["fpr95"])
    return float(result[what])


def paired(run: Recorded, size: str, method: str, other: str, what: str) -> np.ndarray:
    """Return the differences method − other for the seeds that both have."""
    keys = [(f"test.{size}.{method}.{seed}", f"test.{size}.{other}.{seed}") for seed in range(run.config["seeds"])]
    found = [value(run[mine], what) - value(run[its], what) for mine, its in keys if mine in run and its in run]
    return np.asarray(found, dtype=float)


def best_variational(run: Recorded, size: str) -> str:
    """Return the variational method with the least validation loss."""
    losses = {
        method: min(trial["nll"] for trial in run[f"tune.{size}.{method}"]["search"] if trial["nll"] is not None)
        for method in VARIATIONAL
        if f"tune.{size}.{method}" in run
    }
    return min(losses, key=lambda method: losses[method]) if losses else "vadam"
