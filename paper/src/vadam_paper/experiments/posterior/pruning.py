"""LeNet-5 on Fashion-MNIST with most of its weights set to zero, by signal-to-noise ratio or by magnitude, without further training."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from vadam.gaussian import MeanFieldGaussian
from vadam_paper.experiments.posterior.config import Config
from vadam_paper.experiments.posterior.fit import SETTINGS, Settings, lenet5, scores, set_weights, train
from vadam_paper.experiments.posterior.images import load

FRACTIONS = (0.0, 0.5, 0.75, 0.9, 0.95)

SCORED_BY = {"vadam": ("snr", "magnitude"), "adam": ("magnitude",)}


def tune(config: Config, method: str, data: Path | None) -> dict[str, Any]:
    """Return the validation scores of every setting before pruning, and the settings with the best log-likelihood."""
    images = load(config, "fashion-mnist", config.train_images, data)
    search: list[dict[str, Any]] = []
    for settings in SETTINGS[method][: config.settings]:
        model, _ = fitted(config, method, settings, "tune", data)
        search.append({"settings": settings, **scores(model, images.validation)})
    return {"search": search, "settings": max(search, key=lambda trial: trial["log_likelihood"])["settings"]}


def test(config: Config, method: str, settings: Settings, seed: int, data: Path | None) -> dict[str, Any]:
    """Return accuracies and log-likelihoods of the mean network, for each score and fraction."""
    images = load(config, "fashion-mnist", config.train_images, data)
    model, posterior = fitted(config, method, settings, seed, data)
    found: dict[str, Any] = {"settings": settings}
    for by in SCORED_BY[method]:
        pruned = [posterior.prune(fraction, by=by)[1] for fraction in FRACTIONS]
        rows = [scores(set_weights(model, post.mean), images.test) for post in pruned]
        found[by] = {what: [row[what] for row in rows] for what in rows[0]}
    return found


def fitted(
    config: Config, method: str, settings: Settings, seed: object, data: Path | None
) -> tuple[nn.Module, MeanFieldGaussian]:
    """Return the trained network and its posterior; for Adam with precisions of 1, so that it is pruned by the same function."""
    images = load(config, "fashion-mnist", config.train_images, data)
    model = lenet5(config, "pruning", seed)
    posterior = train(model, images.train, method, settings, config, "pruning", seed, epochs=config.pruning_epochs)
    if posterior is None:
        mean = {name: value.detach() for name, value in model.named_parameters()}
        posterior = MeanFieldGaussian(mean, {name: torch.ones_like(value) for name, value in mean.items()})
    return model, posterior
