"""Try the recipe, ``vadam.from_adam``, on networks and data of many kinds, beside AdamW at the same rate and number of steps.

    python -m benchmarks.recipe [--tasks mnist,concrete] [--rates 0.001,0.003] [--seeds 2] [--out results.json]

The recipe's numbers were found on Fashion-MNIST. Nothing is tuned here: both optimizers have the given rate, falling to zero along a half
cosine, and otherwise their defaults. Scores are those of test data: NLL, accuracy and ECE or RMSE, AUROC of images of another kind.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import vadam
from benchmarks.networks import ResidualNetwork
from benchmarks.tasks import Task, intents, lenet, usps
from benchmarks.timing import write
from vadam import metrics
from vadam.gaussian import MeanFieldGaussian
from vadam.likelihoods import Categorical, Gaussian
from vadam_paper import data

DRAWS = 32
IMAGES = (5_000, 2_000)
"""Training and test images."""


class Trial(NamedTuple):
    """A task whose ``validation`` part is test data, and inputs of another kind."""

    task: Task
    foreign: Tensor | None = None


def images(name: str, other: str) -> Trial:
    """Return LeNet-5 on some training images, tested on test images, with those of another set as foreign ones."""
    (train, test), (_, foreign) = data.image_set(name), data.image_set(other)
    parts = [
        (torch.as_tensor(part.X[:n]), torch.as_tensor(part.y[:n]))
        for part, n in zip((train, test), IMAGES, strict=True)
    ]
    return Trial(Task(lenet, Categorical(), *parts, 50, 1000), torch.as_tensor(foreign.X[: IMAGES[1]]))


def table(name: str, noise_precision: float) -> Trial:
    """Return a table with one hidden layer of 50 units, on the first of the published splits."""
    found, split = data.load(name), data.splits(name)[0]
    X, y = torch.as_tensor(found.X).float(), torch.as_tensor(found.y).float().unsqueeze(1)
    mean, scale = X[split.train].mean(0), X[split.train].std(0).clamp(min=1e-6)
    level, spread = y[split.train].mean(), y[split.train].std()
    parts = [((X[rows] - mean) / scale, (y[rows] - level) / spread) for rows in (split.train, split.test)]
    network = lambda: nn.Sequential(nn.Linear(X.shape[1], 50), nn.ReLU(), nn.Linear(50, 1))  # noqa: E731
    return Trial(Task(network, Gaussian(noise_precision=noise_precision), *parts, 32, 2000))


def digits() -> Trial:
    """Return a residual network with BatchNorm on scikit-learn's 8x8 digits; inverted ones are foreign."""
    found = data.load("digits")
    X, y = torch.as_tensor(found.X).float().view(-1, 1, 8, 8) / 16, torch.as_tensor(found.y)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    X, y = X[order], y[order]
    network = lambda: ResidualNetwork("batch", 1, (16, 32), 10)  # noqa: E731
    return Trial(Task(network, Categorical(), (X[:1000], y[:1000]), (X[1000:], y[1000:]), 32, 800), 1 - X[1000:])


TRIALS: dict[str, Callable[[], Trial]] = {
    "fashion": lambda: images("fashion-mnist", "mnist"),
    "mnist": lambda: images("mnist", "fashion-mnist"),
    "notmnist": lambda: images("notmnist", "mnist"),
    "usps": lambda: Trial(usps()),
    "digits": digits,
    "clinc150": lambda: Trial(intents("test")),
    "concrete": lambda: table("concrete", 10.0),
    "power": lambda: table("power", 16.0),
}
FOUND_ON = ("fashion",)


def train(task: Task, optimizer: torch.optim.Optimizer, model: nn.Module, rate: float, seed: int) -> None:
    """Train with the rate falling to zero along a half cosine."""
    for step, (x, y) in enumerate(task.batches(torch.Generator().manual_seed(seed))):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * step / task.steps)) / 2
        optimizer.zero_grad()
        task.likelihood.nll(model(x), y).backward()
        optimizer.step()
    model.eval()


def by(method: str, trial: Trial, rate: float, seed: int) -> dict[str, float]:
    """Return the scores of AdamW's network, or of the posterior by the recipe."""
    task = trial.task
    torch.manual_seed(seed)
    model = task.network().train()
    begun = time.process_time()
    if method == "AdamW":
        train(task, torch.optim.AdamW(model.parameters(), rate), model, rate, seed)
        point = {name: p.detach() for name, p in model.named_parameters()}
        posterior = MeanFieldGaussian({}, {}, point=point)
    else:
        sizes = {"num_data": task.N, "batch_size": task.batch, "steps": task.steps}
        noise = torch.Generator().manual_seed(seed)
        optimizer = vadam.from_adam(model, lr=rate, generator=noise, **sizes)
        train(task, optimizer, model, rate, seed)
        posterior = optimizer.posterior(model)
    return {"seconds": time.process_time() - begun, **scores(trial, model, posterior)}


def scores(trial: Trial, model: nn.Module, posterior: Any) -> dict[str, float]:
    """Return the scores on test data and on foreign inputs."""
    (x, y), likelihood = trial.task.validation, trial.task.likelihood
    draws = vadam.Draws(posterior, DRAWS, generator=torch.Generator().manual_seed(0))
    pred = vadam.predict(model, draws, x, DRAWS, likelihood=likelihood, batch_size=500)
    found = {"nll": -float(pred.log_prob(y).double().mean())}
    if y.is_floating_point():
        return found | {"rmse": float((pred.mean - y).square().mean().sqrt())}
    found |= {"accuracy": float(metrics.accuracy(pred.probs, y)), "ece": float(metrics.ece(pred.probs, y, 15))}
    if trial.foreign is not None:
        away = vadam.predict(model, draws, trial.foreign, DRAWS, likelihood=likelihood, batch_size=500)
        entropy = torch.cat([pred.entropy, away.entropy])
        found["auroc"] = float(metrics.auroc(entropy, (torch.arange(len(entropy)) >= len(y)).long()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TRIALS))
    parser.add_argument("--rates", default="0.001,0.003")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "recipe.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name in options.tasks.split(","):
        trial = TRIALS[name]()
        for rate in map(float, options.rates.split(",")):
            for method in ("AdamW", "recipe"):
                rows = [by(method, trial, rate, seed) for seed in range(options.seeds)]
                mean = {what: sum(row[what] for row in rows) / len(rows) for what in rows[0]}
                results.setdefault(name, {})[f"{method}, lr {rate:g}"] = rows
                numbers = "  ".join(f"{what} {value:.4f}" for what, value in mean.items())
                print(f"{name:<10}{method:<8}lr {rate:<7g}{numbers}", flush=True)
    write(options.out, results, draws=DRAWS, found_on=FOUND_ON)


if __name__ == "__main__":
    main()
