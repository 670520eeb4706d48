"""LeNet-5 on part of Fashion-MNIST: EVON beside IVON with equal settings, seeds, orders of the images and draws."""

import math
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vadam import metrics, optim
from vadam.forward import Draws
from vadam.gaussian import UninformedPosterior
from vadam.likelihoods import Categorical
from vadam.prediction import Classes, predict
from vadam_paper import data
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.correlated.config import Config
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.lenet import lenet5
from vadam_paper.experiments.ood_detection import separation
from vadam_paper.experiments.optimizer_state import load_tensors, tensors_of
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.timing import Stopwatch

KINDS = {"ivon": optim.IVON, "evon": optim.EVON}
BETAS, HESS_INIT, PRIOR_PRECISION = (0.9, 0.995), 0.5, 10.0
BINS, BATCH = 15, 500


class Task(NamedTuple):
    """Fashion-MNIST, standardised by the training images, and MNIST's test images as out-of-distribution ones."""

    train: Labelled
    validation: Labelled
    test: Labelled
    foreign: Tensor


@cache
def load(config: Config, root: Path | None) -> Task:
    (whole, test), (_, digits) = (data.image_set(name, root) for name in ("fashion-mnist", "mnist"))
    order = torch.randperm(len(whole.y), generator=generator(config.seed, "split"))
    n, m = config.train_images, config.validation_images
    X, y = torch.as_tensor(whole.X), torch.as_tensor(whole.y)
    mean, deviation = X[order[:n]].mean(), X[order[:n]].std()

    def scaled(images: Tensor) -> Tensor:
        return (images - mean) / deviation

    few = config.test_images
    return Task(
        Labelled(scaled(X[order[:n]]), y[order[:n]]),
        Labelled(scaled(X[order[n : n + m]]), y[order[n : n + m]]),
        Labelled(scaled(torch.as_tensor(test.X[:few])), torch.as_tensor(test.y[:few])),
        scaled(torch.as_tensor(digits.X[:few])),
    )


def settings(config: Config, number: int) -> dict[str, float]:
    """Return a setting: every rate with every weight of the data."""
    rate, weight = divmod(number, len(config.data_weights))
    return {"lr": config.image_rates[rate], "data_weight": config.data_weights[weight]}


def tune(config: Config, method: str, number: int, context: CellContext) -> dict[str, Any]:
    """Return the validation loss of a setting, with seed 0."""
    task, chosen = load(config, context.data), settings(config, number)
    model, opt, cost = trained(config, method, chosen, 0, task, context)
    found = _predicted(config, model, opt, 0)(task.validation.X)
    return {"settings": chosen, "nll": -float(found.log_prob(task.validation.y).mean()), **cost}


def test(config: Config, method: str, seed: int, context: CellContext) -> dict[str, Any]:
    """Return the scores on the test images with the setting that has IVON's least validation loss."""
    task = load(config, context.data)
    tried = [context.result_of(f"tune.ivon.{n}") for n in range(len(config.image_rates) * len(config.data_weights))]
    chosen = min(tried, key=lambda found: found["nll"])["settings"]
    model, opt, cost = trained(config, method, chosen, seed, task, context)
    predicted = _predicted(config, model, opt, seed)
    home, away = predicted(task.test.X), predicted(task.foreign)
    return {
        "settings": chosen,
        "nll": -float(home.log_prob(task.test.y).mean()),
        "accuracy": float(metrics.accuracy(home.probs, task.test.y)),
        "ece": float(metrics.ece(home.probs, task.test.y, BINS)),
        "auroc": separation(home.entropy, away.entropy)["auroc"],
        "auroc_mutual_information": separation(home.mutual_information, away.mutual_information)["auroc"],
        **cost,
    }


def trained(
    config: Config, method: str, chosen: dict[str, float], seed: int, task: Task, context: CellContext
) -> tuple[nn.Module, optim.VariationalOptimizer, dict[str, float]]:
    """Return the trained network; a run that was stopped goes on after its last epoch."""
    torch.manual_seed(generator(config.seed, seed, "start").initial_seed())
    model, noise, (X, y) = lenet5(config.widths), torch.Generator(), task.train
    how: dict[str, Any] = {"betas": BETAS, "hess_init": HESS_INIT, "clip_radius": math.inf}
    of_data = {"num_data": len(y), "prior_precision": PRIOR_PRECISION, "data_weight": chosen["data_weight"]}
    opt: optim.VariationalOptimizer = KINDS[method](model.parameters(), chosen["lr"], generator=noise, **how, **of_data)
    opt.attach(model)
    first, spent = _restore(model, opt, context)
    steps_an_epoch = -(-len(y) // config.batch_size)
    for epoch in range(first, config.epochs):
        clock = Stopwatch()
        order = torch.randperm(len(y), generator=generator(config.seed, seed, "order", epoch))
        noise.manual_seed(generator(config.seed, seed, "noise", epoch).initial_seed())
        model.train()
        for step, rows in enumerate(order.split(config.batch_size)):
            done = (epoch + step / steps_an_epoch) / config.epochs
            opt.param_groups[0]["lr"] = chosen["lr"] * (1 + math.cos(math.pi * done)) / 2
            opt.zero_grad()
            Categorical().nll(model(X[rows]), y[rows]).backward()
            opt.step()
        spent += clock.elapsed().cpu_seconds
        context.report((epoch + 1) / (config.epochs + 1))
        kept = {f"model/{name}": value for name, value in model.state_dict().items()}
        context.checkpoint(kept | tensors_of(opt, "optimizer"), {"epoch": epoch + 1, "spent": spent})
    model.eval()
    return model, opt, {"training_cpu_seconds": spent}


def _restore(model: nn.Module, opt: optim.VariationalOptimizer, context: CellContext) -> tuple[int, float]:
    found = context.restore()
    if found is None:
        return 0, 0.0
    tensors, meta = found
    model.load_state_dict({k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")})
    load_tensors(opt, "optimizer", tensors)
    return meta["epoch"], meta["spent"]


def _predicted(config: Config, model: nn.Module, opt: optim.VariationalOptimizer, seed: int) -> Any:
    """Return a function that predicts with the same draws of the weights for all images."""
    with warnings.catch_warnings():  # a short run may still show its start
        warnings.simplefilter("ignore", UninformedPosterior)
        draws = Draws(opt.posterior(model), config.samples, generator=generator(config.seed, seed, "draws"))

    def predicted(X: Tensor) -> Classes:
        found = predict(model, draws, X, likelihood=Categorical(), batch_size=BATCH, vmap=False)
        assert isinstance(found, Classes)
        return found

    return predicted
