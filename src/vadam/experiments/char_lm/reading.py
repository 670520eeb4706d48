"""Recorded runs, as table, figures and claims read them."""

from typing import Any

from vadam.experiments.stretches import furthest as runs

__all__ = ["NAMES", "best", "runs"]

NAMES = {
    "sgd": "SGD",
    "adagrad": "AdaGrad",
    "adam": "Adam",
    "vadagrad": "VadaGrad",
    "vadam": "Vadam",
    "ivon": "IVON",
    "vogn": "VOGN",
}


def best(run: dict[str, Any], what: str = "test") -> float:
    """At the epoch with the lowest validation loss, so that nothing is chosen on the test part."""
    validation = [loss if loss is not None else float("inf") for loss in run["validation"]]
    value = run[what][validation.index(min(validation))]
    return float("inf") if value is None else float(value)
