"""Train a network by any method, with one loop and one schedule."""

import math
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import update_bn

from vadam.baselines import MAP, DeepEnsemble, MCDropout
from vadam.likelihoods import Categorical
from vadam.optim.base import VariationalOptimizer
from vadam_paper.experiments.image.config import Config
from vadam_paper.experiments.image.methods import Data, Settings, optimizer_of
from vadam_paper.experiments.image.network import ResidualNetwork
from vadam_paper.experiments.randomness import generator


class Fitted(NamedTuple):
    """A trained network and its posterior, the arguments of ``vadam.predict``."""

    model: nn.Module
    posterior: Any


class Plan(NamedTuple):
    """One network to train: its norm, the method with its settings, and the names that seed its random numbers."""

    config: Config
    norm: str
    method: str
    settings: Settings
    names: tuple[object, ...]


def fit(plan: Plan, X: Tensor, y: Tensor, classes: int) -> Fitted:
    if plan.method.startswith("deep-ensemble"):
        return _ensemble(plan, X, y, classes)
    model = _network(plan, X, classes)
    if plan.method == "mc-dropout":
        dropout = MCDropout(plan.settings["rate"], drop_inputs=False)
        _train(plan, model, X, y, plan.config.epochs, dropout)
        dropout.model = model
        return Fitted(model, dropout)
    return Fitted(model, _train(plan, model, X, y, plan.config.epochs) or _point(model))


def _ensemble(plan: Plan, X: Tensor, y: Tensor, classes: int) -> Fitted:
    """Train an ensemble; its members share the budget, except for the method with the full budget each."""
    members = plan.config.members
    epochs = plan.config.epochs if plan.method.endswith("full") else max(1, plan.config.epochs // members)
    ensemble = DeepEnsemble(members)
    for k, member in enumerate(ensemble.members):
        one = plan._replace(names=(*plan.names, "member", k))
        member.model = _network(one, X, classes)
        _train(one, member.model, X, y, epochs)
    assert ensemble.model is not None
    return Fitted(ensemble.model, ensemble)


def _train(
    plan: Plan, model: nn.Module, X: Tensor, y: Tensor, epochs: int, dropout: MCDropout | None = None
) -> Any | None:
    """Train a network; return its posterior if the method has one.

    The learning rate falls to zero along a half cosine.
    """
    config, N = plan.config, len(X)
    data = Data(N, config.temperature)
    draws, noise = _generator(plan, "order"), _generator(plan, "noise")
    optimizer = optimizer_of(plan.method, plan.settings, model, data, noise)
    if isinstance(optimizer, VariationalOptimizer):
        optimizer.attach(model)
    steps = epochs * steps_per_epoch(config, N)
    schedule = LambdaLR(optimizer, lambda t: (1 + math.cos(math.pi * t / steps)) / 2)
    likelihood = Categorical()
    model.train()
    with dropout.dropping_inputs(model, noise) if dropout else nullcontext():
        for _ in range(epochs):
            for rows in torch.randperm(N, generator=draws).split(config.batch_size):
                optimizer.zero_grad()
                likelihood.nll(model(X[rows]), y[rows]).backward()
                optimizer.step()
                schedule.step()
        refresh_statistics(model, X)
    model.eval()
    if not isinstance(optimizer, VariationalOptimizer):
        return None
    posterior = optimizer.posterior(model)
    optimizer.detach()
    return posterior


def steps_per_epoch(config: Config, N: int) -> int:
    return -(-N // config.batch_size)


def refresh_statistics(model: nn.Module, X: Tensor) -> None:
    """Recompute BatchNorm's running statistics at the mean, which an attached model uses without gradients."""
    update_bn(X.split(256), model)


def _point(model: nn.Module) -> MAP:
    found = MAP()
    found.model = model
    return found


def _network(plan: Plan, X: Tensor, classes: int) -> nn.Module:
    torch.manual_seed(_generator(plan, "start").initial_seed())
    return ResidualNetwork(plan.norm, X.shape[1], plan.config.channels, classes)


def _generator(plan: Plan, what: str) -> torch.Generator:
    """Return a generator that all methods of a seed share."""
    return generator(plan.config.seed, *plan.names, what)
