"""Score a fitted model: accuracy, calibration, and detection of out-of-distribution inputs."""

from typing import Any

import torch
from torch import Tensor

from vadam import metrics
from vadam.gaussian import MeanFieldGaussian
from vadam.likelihoods import Categorical
from vadam.prediction import Classes, predict
from vadam_paper.experiments.image.task import Task
from vadam_paper.experiments.image.train import Fitted

BINS = 10
QUANTILES = (0.05, 0.5, 0.95)


def validation_score(fitted: Fitted, task: Task, samples: int, noise: torch.Generator) -> float:
    return _log_likelihood(_predict(fitted, task.test_X, samples, noise), task.test_y)


def scores(fitted: Fitted, task: Task, samples: int, noise: torch.Generator) -> dict[str, Any]:
    """Return the scores on the test images.

    Out-of-distribution inputs are detected by the entropy of the prediction: an AUROC of 0.5 is chance, 1 is perfect.
    """
    home = _predict(fitted, task.test_X, samples, noise)
    seen: dict[str, Any] = {
        "accuracy": metrics.accuracy(home.probs, task.test_y),
        "log_likelihood": _log_likelihood(home, task.test_y),
        "ece": metrics.ece(home.probs, task.test_y),
        "brier": metrics.brier(home.probs, task.test_y),
    }
    for kind, X in task.ood.items():
        away = _predict(fitted, X, samples, noise)
        entropy = torch.cat([home.entropy, away.entropy])
        is_ood = torch.arange(len(entropy)) >= len(home.entropy)
        seen[f"auroc_{kind}"] = metrics.auroc(entropy, is_ood.long())
    return {name: float(value) for name, value in seen.items()} | {"reliability": reliability(home, task.test_y)}


def spread(posterior: MeanFieldGaussian) -> dict[str, float]:
    """Return quantiles of the precision over the weights."""
    precision = _all(posterior)
    return {f"{100 * q:g} %": float(precision.quantile(q)) for q in QUANTILES}


def isotropic(fitted: Fitted, task: Task, samples: int, noise: torch.Generator) -> dict[str, float]:
    """Score the same mean with one precision for all weights, their median.

    This control shows what the differences between precisions contribute.
    """
    same = fitted.posterior.precision
    constant = {name: torch.full_like(p, float(_all(fitted.posterior).median())) for name, p in same.items()}
    control = fitted._replace(posterior=MeanFieldGaussian(fitted.posterior.mean, constant))
    home = _predict(control, task.test_X, samples, noise)
    return {
        "log_likelihood": _log_likelihood(home, task.test_y),
        "ece": float(metrics.ece(home.probs, task.test_y)),
    }


def _all(posterior: MeanFieldGaussian) -> Tensor:
    return torch.cat([p.flatten() for p in posterior.precision.values()])


def _log_likelihood(prediction: Classes, y: Tensor) -> float:
    return float(metrics.log_likelihood(prediction.log_prob_samples(y)))


def reliability(prediction: Classes, y: Tensor) -> dict[str, list[float]]:
    """Return, for equal intervals of confidence, the number of predictions, their total confidence, and the number right."""
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
