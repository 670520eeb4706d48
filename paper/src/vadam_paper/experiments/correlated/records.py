"""Read what was recorded: KL by method, correlations, scores of LeNet-5."""

from typing import Any

import numpy as np

from vadam_paper.experiments.correlated.run import SETS
from vadam_paper.experiments.results import Recorded

NAMES = {
    "vadam": "Vadam (paper)",
    "vadam-batch-size": "Vadam (Theorem 1)",
    "vadam-ggn": "VadamGGN",
    "vogn": "VOGN",
    "ivon": "IVON",
    "evon": "EVON",
}
SET_NAMES = {"toy": "toy", "breast-cancer": "breast cancer", "usps": "USPS 3 vs 5"}
SCORES = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "auroc": "AUROC, MNIST by entropy"}
assert set(SET_NAMES) == set(SETS)


def best(run: Recorded, name: str, method: str, what: str) -> list[float]:
    """Return a score of every seed at the rate with the largest mean ELBO."""
    cell = run[f"logistic.{name}.{method}"]
    values: list[float] = cell[what][cell["best_rate"]]
    return values


def rate(run: Recorded, name: str, method: str) -> float:
    found: float = run.config["rates"][run[f"logistic.{name}.{method}"]["best_rate"]]
    return found


def scores(run: Recorded, method: str, what: str) -> np.ndarray:
    """Return a score of LeNet-5 for every seed."""
    return np.asarray([run[f"test.{method}.{seed}"][what] for seed in range(run.config["image_seeds"])], dtype=float)


def settings(run: Recorded) -> dict[str, Any]:
    """Return the setting of LeNet-5 in the tests."""
    found: dict[str, Any] = run["test.ivon.0"]["settings"]
    return found


def validation(run: Recorded, method: str) -> list[float]:
    count = len(run.config["image_rates"]) * len(run.config["data_weights"])
    return [run[f"tune.{method}.{number}"]["nll"] for number in range(count)]
