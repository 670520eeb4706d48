"""Score predictions for test queries and for queries out of scope."""

from typing import Any

from torch import Tensor

from vadam import metrics
from vadam.prediction import Classes
from vadam_paper.experiments.ood_detection import separation


def nll(prediction: Classes, y: Tensor) -> float:
    return float(-prediction.log_prob(y).mean())


def scores(home: Classes, y: Tensor, away: Classes, *, sampled: bool) -> dict[str, Any]:
    """Return all scores; those by mutual information if weights were sampled."""
    probs = home.probs
    found: dict[str, Any] = {
        "nll": nll(home, y),
        "accuracy": float(metrics.accuracy(probs, y)),
        "ece": float(metrics.ece(probs, y)),
        "brier": float(metrics.brier(probs, y)),
        "aurc": float(metrics.aurc(home.entropy, (home.label != y).to(probs.dtype))),
        "entropy": separation(home.entropy, away.entropy),
    }
    if sampled:
        found["mutual_information"] = separation(home.mutual_information, away.mutual_information)
    return found
