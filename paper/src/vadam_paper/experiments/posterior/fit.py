"""Train and score one network: an MLP or LeNet-5, by Adam or by a variational optimizer."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vadam import optim
from vadam.gaussian import MeanFieldGaussian, UninformedPosterior
from vadam.likelihoods import Categorical
from vadam.prediction import Classes, predict
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.posterior.config import Config
from vadam_paper.experiments.posterior.images import CLASSES, SIDE
from vadam_paper.experiments.randomness import generator

Settings = dict[str, float]
BETAS = (0.9, 0.99)
"""Decay rates; the second forgets the start of the precision within a task."""
PRIOR_PRECISION = 100.0
"""Precision of the first prior, of the order of torch's initial weights."""
OPTIMIZERS: dict[str, Callable[..., optim.VariationalOptimizer]] = {"vadam": optim.Vadam, "vadam-ggn": optim.VadamGGN}
RATES = (1e-3, 3e-3, 1e-2)
SETTINGS: dict[str, list[Settings]] = {
    "adam": [{"lr": lr} for lr in (1e-4, 3e-4, 5e-4, 1e-3, 3e-3, 1e-2)],
    "vadam": [{"lr": lr, "data_weight": weight} for lr in RATES for weight in (1.0, 10.0)],
}
SETTINGS["vadam-ggn"] = SETTINGS["vadam"]


def mlp(config: Config, *names: object) -> nn.Module:
    """Return a network with one hidden layer; its initial weights follow from the names."""
    return _initialised(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(SIDE * SIDE, config.hidden), nn.ReLU(), nn.Linear(config.hidden, CLASSES)
        ),
        config,
        *names,
    )


def lenet5(config: Config, *names: object) -> nn.Module:
    """Return LeNet-5 with 61,706 weights; its initial weights follow from the names."""
    return _initialised(
        lambda: nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, CLASSES),
        ),
        config,
        *names,
    )


def _initialised(make: Callable[[], nn.Module], config: Config, *names: object) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(config.seed, "weights", *names).initial_seed())
        return make()


def train(
    model: nn.Module,
    part: Labelled,
    method: str,
    settings: Settings,
    config: Config,
    *names: object,
    epochs: int,
    prior: MeanFieldGaussian | None = None,
) -> MeanFieldGaussian | None:
    """Train in place and return the posterior, or None for Adam; order and noise follow from the names.

    ``prior`` is an earlier posterior: the prior and the start.
    """
    random = generator(config.seed, "train", method, *names)
    opt = _optimizer(model, len(part.X), method, settings, config, random, prior)
    model.train()
    in_epoch = len(part.X) // config.batch_size * config.batch_size
    for _ in range(epochs):
        for rows in torch.randperm(len(part.X), generator=random)[:in_epoch].split(config.batch_size):
            opt.zero_grad()
            cross_entropy(model(part.X[rows]), part.y[rows]).backward()
            opt.step()
    model.eval()
    if not isinstance(opt, optim.VariationalOptimizer):
        return None
    found = opt.posterior(model)
    opt.detach()
    assert isinstance(found, MeanFieldGaussian)
    return found


def _optimizer(
    model: nn.Module,
    N: int,
    method: str,
    settings: Settings,
    config: Config,
    random: torch.Generator,
    prior: MeanFieldGaussian | None,
) -> torch.optim.Optimizer:
    if method == "adam":
        return torch.optim.Adam(model.parameters(), lr=settings["lr"])
    start = N * settings["data_weight"]
    of_prior: dict[str, Any] = (
        {"prior_precision": PRIOR_PRECISION, "init_precision": max(PRIOR_PRECISION, start)}
        if prior is None
        else {"prior": prior}
    )
    made = OPTIMIZERS[method](
        model.named_parameters(),
        betas=BETAS,
        num_data=N,
        batch_size=config.batch_size,
        generator=random,
        **settings,
        **of_prior,
    )
    return made.attach(model)


@torch.no_grad()
def scores(model: nn.Module, part: Labelled) -> dict[str, float]:
    """Return accuracy and log-likelihood of the network at its weights."""
    logits = torch.cat([model(X) for X in part.X.split(500)])
    return _scores(logits.log_softmax(-1), part.y)


def predictive_scores(
    model: nn.Module, post: MeanFieldGaussian, part: Labelled, config: Config, *names: object
) -> dict[str, float]:
    """Return accuracy and log-likelihood of the mean probabilities over draws of the weights."""
    random = generator(config.seed, "draws", *names)
    with warnings.catch_warnings():  # a short training may leave a posterior that is all start
        warnings.simplefilter("ignore", UninformedPosterior)
        found = predict(
            model, post, part.X, config.samples, likelihood=Categorical(), generator=random, batch_size=1000
        )
    assert isinstance(found, Classes)
    return _scores(found.probs.log(), part.y)


def _scores(log_probs: Tensor, y: Tensor) -> dict[str, float]:
    return {
        "accuracy": float((log_probs.argmax(-1) == y).double().mean()),
        "log_likelihood": float(log_probs.gather(-1, y[:, None]).mean()),
    }


def set_weights(model: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """Copy weights into a network and return it."""
    model.load_state_dict(weights)
    return model
