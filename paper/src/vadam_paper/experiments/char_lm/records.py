"""Read recorded runs for table, figures and claims."""

from typing import Any

from vadam_paper.experiments.milestones import latest as runs
from vadam_paper.experiments.milestones import latest_by_number as seeds

__all__ = ["NAMES", "best", "runs", "seeds"]

NAMES = {
    "sgd": "SGD",
    "adagrad": "AdaGrad",
    "adam": "Adam",
    "vadagrad": "VadaGrad",
    "vadagrad-total": "VadaGrad, F total",
    "vadam": "Vadam",
    "ivon": "IVON",
    "vogn": "VOGN",
}


def best(run: dict[str, Any], what: str = "test", epochs: int | None = None) -> float:
    """Return a value at the epoch with the lowest validation loss among the first ``epochs``.

    Nothing is chosen on the test part.
    """
    validation = [loss if loss is not None else float("inf") for loss in run["validation"][:epochs]]
    value = run[what][validation.index(min(validation))]
    return float("inf") if value is None else float(value)
