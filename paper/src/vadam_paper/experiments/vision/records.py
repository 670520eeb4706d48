"""Read what was recorded: seeds of a method, single numbers, means."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vadam_paper.experiments.results import Recorded
from vadam_paper.experiments.vision.config import POOLS

NAMES = {
    "adamw": "AdamW",
    "adamw-scaled": "AdamW, temperature-scaled",
    "sgd": "SGD",
    "vadam": "Vadam (Theorem 1)",
    "vadam-paper": "Vadam (paper)",
    "vogn": "VOGN",
    "ivon": "IVON",
    "evon": "EVON",
    "ivon-opt": "IVON (ivon-opt)",
    "mc-dropout": "MC-Dropout",
    "laplace": "Last-layer Laplace",
    "swag": "SWAG",
    "deep-ensemble": "Deep ensemble",
    "mixture": "Mixture",
}
SETS = {"fashion": "Fashion-MNIST", "mnist": "MNIST"}
FOREIGN = {"fashion": ("mnist", "notmnist"), "mnist": ("fashion", "notmnist")}
PUBLIC = {
    "fashion": {"deterministic": (0.321, 91.0), "VI": (0.292, 89.5), "refined VI": (0.259, 90.6), "ensemble of 10": (0.200, 93.2)},
    "mnist": {"deterministic": (0.037, 99.1), "VI": (0.048, 98.5), "refined VI": (0.034, 99.0), "ensemble of 10": (0.016, 99.4)},
}  # fmt: skip
"""Negative log-likelihood and accuracy of LeNet-5 in google/uncertainty-baselines, baselines/mnist."""
ONE_NETWORK = ("vadam", "ivon")
"""Variational methods that train one network at about AdamW's price."""


def seeds(run: Recorded, name: str, method: str) -> list[dict[str, Any]]:
    """Return the recorded tests of a method on a set, in the order of the seeds."""
    keys = (f"test.{name}.{method}.{seed}" for seed in range(run.config["seeds"]))
    return [run[key] for key in keys if key in run]


def methods(run: Recorded, name: str) -> list[str]:
    """Return the methods with a recorded test, in the order of the table."""
    return [method for method in NAMES if seeds(run, name, method)]


def values(run: Recorded, name: str, method: str, what: str) -> np.ndarray:
    """Return one number for each seed.

    ``what`` is a score, or ``auroc`` and ``fpr95`` (means over the two OOD sets, by entropy), ``auroc_mi`` and ``fpr95_mi``
    (by mutual information).
    """
    return np.asarray([value(result, what) for result in seeds(run, name, method)], dtype=float)


def value(result: dict[str, Any], what: str) -> float:
    if what.startswith(("auroc", "fpr95")):
        score, _, by_mutual_information = what.partition("_")
        by = "mutual_information" if by_mutual_information else "entropy"
        found = [foreign[by][score] for foreign in result["foreign"].values() if by in foreign]
        return float(np.mean(found)) if found else float("nan")
    return float(result[what])


def paired(run: Recorded, name: str, method: str, other: str, what: str) -> np.ndarray:
    """Return the differences method − other for the seeds that both have."""
    keys = [(f"test.{name}.{method}.{seed}", f"test.{name}.{other}.{seed}") for seed in range(run.config["seeds"])]
    found = [value(run[mine], what) - value(run[its], what) for mine, its in keys if mine in run and its in run]
    return np.asarray(found, dtype=float)


def tuning(run: Recorded, method: str) -> list[dict[str, Any]]:
    """Return the recorded trials of a method, rung by rung."""
    rungs: Sequence[Sequence[int]] = run.config["rungs"]
    keys = (f"tune.{method}.{rung}.{rank}" for rung, (_, count) in enumerate(rungs) for rank in range(count))
    return [run[key] for key in keys if key in run]


def best_variational(run: Recorded, name: str) -> str | None:
    """Return the variational method of one network with the least validation loss after the whole tuning."""
    last = len(run.config["rungs"]) - 1
    found = {
        method: run[f"tune.{method}.{last}.{k}"]["nll"]
        for method in ONE_NETWORK
        for k in range(run.config["rungs"][last][1])
        if f"tune.{method}.{last}.{k}" in run and seeds(run, name, method)
    }
    finite = {method: loss for method, loss in found.items() if loss is not None}
    return min(finite, key=lambda method: finite[method]) if finite else None


def costs(run: Recorded, method: str) -> np.ndarray:
    """Return the processor time of a method's training × AdamW's, as often as both took steps in turn."""
    if "speed" not in run:
        return np.zeros(0)
    times: dict[str, list[float]] = run["speed"]["milliseconds"]
    networks, trained_as = 1, {"adamw-scaled": "adamw", "laplace": "adamw"}.get(method, method)
    if method in POOLS:
        pools = [test for name in SETS for test in seeds(run, name, method)]
        networks, trained_as = run.config["members"], pools[0]["of"] if pools else ""
    if trained_as not in times or "adamw" not in times:
        return np.zeros(0)
    return networks * np.divide(times[trained_as], times["adamw"])


def draws_curves(run: Recorded) -> dict[str, dict[int, float]]:
    """Return the loss by number of draws, for each studied method."""
    found = {method: run[f"draws.{method}"]["nll"] for method in NAMES if f"draws.{method}" in run}
    return {method: {int(count): loss for count, loss in curve.items()} for method, curve in found.items()}


def member_curves(run: Recorded, name: str) -> dict[str, dict[int, float]]:
    """Return the loss by number of members, for each pool."""
    found = {method: seeds(run, name, method) for method in POOLS}
    return {method: dict(enumerate(tests[0]["first_members"], 1)) for method, tests in found.items() if tests}


def epoch_curves(run: Recorded) -> dict[str, dict[int, float]]:
    """Return the loss by number of training epochs on Fashion-MNIST, for methods with more than one number."""
    return {method: {n: float(test["nll"]) for n, test in tests.items()} for method, tests in lengths(run).items()}


def lengths(run: Recorded) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the first seed's tests on Fashion-MNIST by number of training epochs, for methods with a longer one."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for method in NAMES:
        longer = {n: run[f"long.{method}.{n}"] for n in run.config["long"] if f"long.{method}.{n}" in run}
        if longer and seeds(run, "fashion", method):
            found[method] = dict(sorted({run.config["epochs"]: seeds(run, "fashion", method)[0], **longer}.items()))
    return found


def jackknife(run: Recorded, name: str, method: str, other: str) -> np.ndarray:
    """Return the jackknife's pseudo-values of the difference in loss of two pools, one for each left-out member."""
    pair = [seeds(run, name, pool) for pool in (method, other)]
    if not all(pair):
        return np.zeros(0)
    whole = pair[0][0]["nll"] - pair[1][0]["nll"]
    without = np.subtract(pair[0][0]["without_member"], pair[1][0]["without_member"])
    return len(without) * whole - (len(without) - 1) * without
