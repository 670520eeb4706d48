"""Posteriors of two halves of the data, merged, beside the posterior of all data.

Linear regression has a closed form, logistic regression the exact mean-field posterior. For networks on MNIST the comparison is the plain
average of the weights; both halves start from the same weights.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vadam import VON
from vadam.exact import logistic
from vadam.gaussian import MeanFieldGaussian
from vadam_paper import data as sets
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.posterior.config import Config
from vadam_paper.experiments.posterior.fit import (
    SETTINGS,
    Settings,
    mlp,
    predictive_scores,
    scores,
    set_weights,
    train,
)
from vadam_paper.experiments.posterior.images import Images, load
from vadam_paper.experiments.randomness import generator

ROWS, FEATURES, PRIOR = 40, 5, 2.0
"""Rows of a half and features of the linear regressions, and the prior precision of both regressions."""
RULES = {"merged": "vadam", "average": "vadam", "adam-average": "adam"}
"""How two halves become one network, and what they are trained by."""


# Linear regression -----------------------------------------------------------------------------------------------------------


def linear(config: Config) -> dict[str, list[float]]:
    """Return the largest errors of merged halves, trained by VON, against the closed form of all rows; relative for precisions.

    The columns of each half are orthogonal, so that the exact posteriors are mean-field.
    """
    errors: dict[str, list[float]] = {"mean": [], "precision": []}
    for repetition in range(config.repetitions):
        draw = generator(config.seed, "linear", repetition)
        halves = [torch.linalg.qr(torch.randn(ROWS, FEATURES, generator=draw).double())[0] * 5 for _ in range(2)]
        targets = [torch.randn(ROWS, 1, generator=draw).double() for _ in halves]
        merged = MeanFieldGaussian.merge([_by_von(X, y) for X, y in zip(halves, targets, strict=True)])
        X, y = torch.cat(halves), torch.cat(targets)
        precision = X.T @ X + PRIOR * torch.eye(FEATURES, dtype=torch.float64)
        mean = torch.linalg.solve(precision, X.T @ y)[:, 0]
        errors["mean"].append((merged.mean["weight"][0] - mean).abs().max().item())
        errors["precision"].append((merged.precision["weight"][0] / precision.diagonal() - 1).abs().max().item())
    return errors


def _by_von(X: Tensor, y: Tensor) -> MeanFieldGaussian:
    """Return VON's posterior after one Newton step, which is exact on a quadratic."""
    model = nn.Linear(FEATURES, 1, bias=False, dtype=torch.float64)
    named = model.named_parameters()
    newton: dict[str, Any] = {"lr": 1.0, "beta": 0.0, "curvature": "exact", "samples": 2, "antithetic": True}
    opt = VON(named, num_data=len(X), prior_precision=PRIOR, step_bound=math.inf, **newton)
    opt.step(lambda: 0.5 * (model(X) - y).square().mean())
    found = opt.posterior(model)
    assert isinstance(found, MeanFieldGaussian)
    return found


# Logistic regression ---------------------------------------------------------------------------------------------------------


def logistic_halves(config: Config, data: Path | None) -> dict[str, list[float]]:
    """Return symmetric KLs in nats to the exact mean-field posterior of all rows of breast-cancer.

    Of one half; of a Gaussian with the average of both halves' means, and their precisions added; and of the merged halves.
    """
    table = sets.load("breast-cancer", root=data)
    X, y = torch.as_tensor(table.X), torch.as_tensor(table.y.astype(float))
    joint = _exact(X, y)
    found: dict[str, list[float]] = {"half": [], "averaged_means": [], "merged": []}
    for repetition in range(config.repetitions):
        order = torch.randperm(len(X), generator=generator(config.seed, "logistic", repetition))
        halves = [_exact(X[rows], y[rows]) for rows in order.tensor_split(2)]
        merged = MeanFieldGaussian.merge(halves)
        mean = {"w": torch.stack([half.mean["w"] for half in halves]).mean(0)}
        found["half"].append(sum(half.symmetric_kl(joint).item() for half in halves) / 2)
        found["averaged_means"].append(MeanFieldGaussian(mean, merged.precision).symmetric_kl(joint).item())
        found["merged"].append(merged.symmetric_kl(joint).item())
    return found


def _exact(X: Tensor, y: Tensor) -> MeanFieldGaussian:
    lam = torch.full((X.shape[1],), PRIOR, dtype=torch.float64)
    fit = logistic.mean_field(X, y, lam)
    return MeanFieldGaussian({"w": fit.mean}, {"w": fit.precision}, prior_precision={"w": PRIOR})


# Networks on MNIST -----------------------------------------------------------------------------------------------------------


def tune(config: Config, rule: str, data: Path | None) -> dict[str, Any]:
    """Return the validation scores of the combined network for every setting, and the settings with the best log-likelihood."""
    images = load(config, "mnist", 2 * config.train_images, data)
    search: list[dict[str, Any]] = []
    for settings in SETTINGS[RULES[rule]][: config.settings]:
        model, _, _ = combined(config, rule, settings, images, "tune")
        search.append({"settings": settings, **scores(model, images.validation)})
    return {"search": search, "settings": max(search, key=lambda trial: trial["log_likelihood"])["settings"]}


def test(config: Config, rule: str, settings: Settings, seed: int, data: Path | None) -> dict[str, Any]:
    """Return the scores of the combined network, of the halves and, for a merged posterior, of its predictions and of joint training."""
    images = load(config, "mnist", 2 * config.train_images, data)
    model, posterior, halves = combined(config, rule, settings, images, seed)
    found: dict[str, Any] = {"settings": settings, **scores(model, images.test)}
    if posterior is not None:
        found["predictive"] = predictive_scores(model, posterior, images.test, config, "merging", seed)
        whole = mlp(config, "merging", seed)
        joint = train(whole, images.train, "vadam", settings, config, "joint", seed, epochs=config.merging_epochs)
        assert joint is not None
        found["joint"] = scores(whole, images.test)
        found["joint_predictive"] = predictive_scores(whole, joint, images.test, config, "joint", seed)
    of_halves = [scores(set_weights(model, weights), images.test) for weights in halves]
    return found | {"half": {what: float(np.mean([half[what] for half in of_halves])) for what in of_halves[0]}}


def combined(
    config: Config, rule: str, settings: Settings, images: Images, seed: object
) -> tuple[nn.Module, MeanFieldGaussian | None, list[dict[str, Tensor]]]:
    """Return the network of both halves, its posterior where the rule is to merge, and the weights of the halves."""
    halves, posteriors = [], []
    for k, rows in enumerate(torch.arange(len(images.train.y)).tensor_split(2)):
        model = mlp(config, "merging", seed)
        part, names = Labelled(images.train.X[rows], images.train.y[rows]), ("merging", seed, k)
        posteriors.append(train(model, part, RULES[rule], settings, config, *names, epochs=config.merging_epochs))
        halves.append({name: value.clone() for name, value in model.state_dict().items()})
    if rule == "merged":
        merged = MeanFieldGaussian.merge([posterior for posterior in posteriors if posterior is not None])
        return set_weights(model, merged.mean), merged, halves
    return set_weights(model, {name: (halves[0][name] + halves[1][name]) / 2 for name in halves[0]}), None, halves
