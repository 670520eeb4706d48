"""How good the predictions of a fitted model are, how honest, and whether foreign inputs are noticed."""

from typing import Any

import torch
from torch import Tensor

from vadam import metrics
from vadam.experiments.image.task import Task
from vadam.experiments.image.train import Fitted
from vadam.likelihoods import Categorical
from vadam.predict import Classes, predict

BINS = 10


def validation_score(fitted: Fitted, X: Tensor, y: Tensor, samples: int, noise: torch.Generator) -> float:
    return float(metrics.log_likelihood(_predict(fitted, X, samples, noise).log_prob_samples(y)))


def scores(fitted: Fitted, task: Task, samples: int, noise: torch.Generator) -> dict[str, Any]:
    """Foreign inputs are told from test images by the entropy of the prediction; 0.5 is chance, 1 every one of them."""
    home = _predict(fitted, task.test_X, samples, noise)
    seen = {
        "accuracy": metrics.accuracy(home.probs, task.test_y),
        "log_likelihood": metrics.log_likelihood(home.log_prob_samples(task.test_y)),
        "ece": metrics.ece(home.probs, task.test_y),
        "brier": metrics.brier(home.probs, task.test_y),
    }
    for kind, X in task.foreign.items():
        away = _predict(fitted, X, samples, noise)
        entropy = torch.cat([home.entropy, away.entropy])
        is_foreign = torch.arange(len(entropy)) >= len(home.entropy)
        seen[f"auroc_{kind}"] = metrics.auroc(entropy, is_foreign.long())
    return {name: float(value) for name, value in seen.items()} | {"reliability": reliability(home, task.test_y)}


def reliability(prediction: Classes, y: Tensor) -> dict[str, list[float]]:
    """For equal intervals of confidence: how many predictions, their summed confidence, and how many were right."""
    interval = (prediction.confidence * BINS).ceil().long().clamp(1, BINS) - 1
    right = (prediction.label == y).double()
    total = {"count": torch.ones_like(right), "confidence": prediction.confidence.double(), "right": right}
    zero = torch.zeros(BINS, dtype=torch.double)
    return {name: zero.index_add(0, interval, values).tolist() for name, values in total.items()}


def _predict(fitted: Fitted, X: Tensor, samples: int, noise: torch.Generator) -> Classes:
    found = predict(
        fitted.model,
        fitted.posterior,
        X,
        samples,
        likelihood=Categorical(),
        generator=noise,
        batch_size=512,
        vmap=False,
    )
    assert isinstance(found, Classes)
    return found
