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
SIZES = {"all": "Last layer, 100 queries an intent", "ten": "Last layer, 10 an intent"}
WAYS = {"lora": "LoRA, 10 an intent", "full": "All weights, 10 an intent"}
PARTS = SIZES | WAYS
"""Titles of the studies: the weights that are trained, and the number of training queries."""
VARIATIONAL = ("vadam", "ivon", "vogn", "vadam-paper")


def seeds(run: Recorded, part: str, method: str) -> list[dict[str, Any]]:
    keys = (f"test.{part}.{method}.{seed}" for seed in range(run.config["seeds"]))
    return [run[key] for key in keys if key in run]


def values(run: Recorded, part: str, method: str, what: str) -> np.ndarray:
    """Return one number for each seed; ``auroc`` and ``recall`` are of queries out of scope, with ``_mi`` by mutual information."""
    return np.asarray([value(result, what) for result in seeds(run, part, method)], dtype=float)


def value(result: dict[str, Any], what: str) -> float:
    score, _, by_mutual_information = what.partition("_")
    if score in ("auroc", "recall"):
        found = result.get("mutual_information" if by_mutual_information else "entropy")
        if found is None:
            return float("nan")
        return float(found["auroc"] if score == "auroc" else 1 - found["fpr95"])
    return float(result[what])


def paired(run: Recorded, part: str, method: str, other: str, what: str) -> np.ndarray:
    """Return the differences method − other for the seeds that both have."""
    keys = [(f"test.{part}.{method}.{seed}", f"test.{part}.{other}.{seed}") for seed in range(run.config["seeds"])]
    found = [value(run[mine], what) - value(run[its], what) for mine, its in keys if mine in run and its in run]
    return np.asarray(found, dtype=float)


def best_variational(run: Recorded, part: str) -> str:
    """Return the variational method with the least validation loss."""
    found = {method: [trial["nll"] for trial in trials(run, part, method)] for method in VARIATIONAL}
    losses = {method: min(losses) for method, losses in found.items() if losses}
    return min(losses, key=lambda method: losses[method]) if losses else "vadam"


def trials(run: Recorded, part: str, method: str) -> list[dict[str, Any]]:
    """Return the settings that were tried, with a finite validation loss."""
    if part in SIZES:
        whole = f"tune.{part}.{method}"
        found = run[whole]["search"] if whole in run else []
        return [trial for trial in found if trial["nll"] is not None]
    keys = [key for key in run.cells if key.startswith(f"tune.{part}.{method}.")]
    return [{**run[key]["settings"], "nll": run[key]["nll"]} for key in keys if run[key]["nll"] is not None]


def chosen(run: Recorded, part: str, method: str) -> dict[str, float]:
    """Return the settings with the least validation loss; empty if none is recorded."""
    best = min(trials(run, part, method), key=lambda trial: trial["nll"], default={})
    return {name: value for name, value in best.items() if name != "nll"}
