"""Score a model: accuracy, calibration, selective prediction, OOD images, shifted images."""

from typing import Any

import torch
from torch import Tensor

from vadam import metrics
from vadam.prediction import Classes
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.ood_detection import separation
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.vision.config import Config
from vadam_paper.experiments.vision.fitted import Drawn, Fitted, Pool
from vadam_paper.experiments.vision.shifts import noisy, rotated
from vadam_paper.experiments.vision.task import Task

BINS = 15
COVERAGES = 20
ENTROPY_BINS = 24
DIGITS = 3
"""Digits of what is only drawn."""


def validation_nll(fitted: Fitted, task: Task, samples: int, noise: torch.Generator) -> float:
    return nll(fitted.drawn(samples, noise).predict(task.scale(task.validation.X)), task.validation.y)


def nll(prediction: Classes, y: Tensor) -> float:
    return float(-prediction.log_prob(y).mean())


def test_scores(config: Config, fitted: Fitted, task: Task, noise: torch.Generator) -> dict[str, Any]:
    """Return all scores on the test images and on OOD and shifted ones, with the same draws of the weights."""
    drawn = fitted.drawn(fitted.samples or config.samples, noise)
    home = drawn.predict(task.scale(task.test.X))
    return {
        **_scores(home, task.test.y),
        **(_by_members(home, task.test.y, config.members) if isinstance(fitted.posterior, Pool) else {}),
        "foreign": {name: _foreign(home, drawn.predict(task.scale(X)), fitted) for name, X in task.foreign.items()},
        **_shifted(config, drawn, task),
        "reliability": _reliability(home, task.test.y),
        "risk": _risk(home, task.test.y),
        "home_entropy": _histogram(home.entropy),
    }


def _scores(prediction: Classes, y: Tensor) -> dict[str, float]:
    probs = prediction.probs
    found = {
        "accuracy": metrics.accuracy(probs, y),
        "brier": metrics.brier(probs, y),
        "ece": metrics.ece(probs, y, BINS),
        "aurc": metrics.aurc(prediction.entropy, (prediction.label != y).to(probs.dtype)),
    }
    return {"nll": nll(prediction, y), **{name: float(value) for name, value in found.items()}}


def _foreign(home: Classes, away: Classes, fitted: Fitted) -> dict[str, Any]:
    """Return the AUROC of detecting out-of-distribution images by entropy, and by mutual information if there is any."""
    found: dict[str, Any] = {"entropy": separation(home.entropy, away.entropy)}
    if not fitted.is_point:
        found["mutual_information"] = separation(home.mutual_information, away.mutual_information)
    return {**found, "histogram": _histogram(away.entropy)}


def _shifted(config: Config, drawn: Drawn, task: Task) -> dict[str, list[dict[str, float]]]:
    part = Labelled(task.test.X[: config.shifted_images], task.test.y[: config.shifted_images])
    turned = [rotated(part.X, degrees) for degrees in config.rotations]
    noise = [noisy(part.X, s, generator(config.seed, "noise on images", s)) for s in config.noises]
    return {
        name: [_brief(drawn, task, X, part.y) for X in each] for name, each in (("rotated", turned), ("noisy", noise))
    }


def _brief(drawn: Drawn, task: Task, X: Tensor, y: Tensor) -> dict[str, float]:
    prediction = drawn.predict(task.scale(X))
    scores = _scores(prediction, y)
    return {name: float(f"{scores[name]:.5g}") for name in ("nll", "accuracy", "ece")}


def _by_members(prediction: Classes, y: Tensor, members: int) -> dict[str, list[float]]:
    """Return the loss of the first 1, 2, … members of a pool, and the loss without each member in turn."""
    member = torch.arange(len(prediction.samples)) % members

    def loss(kept: Tensor) -> float:
        return nll(Classes(prediction.samples[kept], prediction.likelihood), y)

    return {
        "first_members": [loss(member <= k) for k in range(members)],
        "without_member": [loss(member != k) for k in range(members)],
    }


def draws_curve(config: Config, fitted: Fitted, task: Task, noise: torch.Generator) -> dict[str, float]:
    """Return the test loss with 1, 2, 4, … draws: the first of the same ones."""
    n = config.draws_images
    samples = fitted.drawn(config.most_draws, noise).predict(task.scale(task.test.X[:n]))
    counts = [1 << k for k in range(config.most_draws.bit_length())]
    return {str(k): nll(Classes(samples.samples[:k], samples.likelihood), task.test.y[:n]) for k in counts}


def _reliability(prediction: Classes, y: Tensor) -> dict[str, list[float]]:
    confidence, right, count = metrics.reliability_curve(prediction.probs, y, BINS)
    return {"confidence": _rounded(confidence), "right": _rounded(right), "count": count.tolist()}


def _risk(prediction: Classes, y: Tensor) -> list[float]:
    """Return the error of the 1/20, 2/20, … of the test images with the least entropy."""
    wrong = (prediction.label != y).double()[prediction.entropy.argsort(stable=True)]
    answered = [max(1, round(len(y) * k / COVERAGES)) for k in range(1, COVERAGES + 1)]
    return [float(f"{wrong[:n].mean():.{DIGITS}g}") for n in answered]


def _histogram(entropy: Tensor) -> list[float]:
    """Return the shares of images in equal intervals of the entropy, from 0 to log 10."""
    top = torch.tensor(10.0).log().item()
    return _rounded(torch.histc(entropy, ENTROPY_BINS, 0.0, top) / len(entropy))


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]
