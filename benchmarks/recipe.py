"""Try the recipe, ``vadam.from_adam``, on networks and data of many kinds, beside AdamW at the same rate and number of steps.

    python -m benchmarks.recipe [--tasks mnist,concrete] [--rates 0.001,0.003] [--seeds 3] [--out results.json]
    python -m benchmarks.recipe --search

Nothing is tuned in the first: both optimizers have the given rate, falling to zero along a half cosine, and otherwise their defaults.
Scores are those of test data: NLL, accuracy and ECE or RMSE, AUROC of images of another kind. ``--search`` tries effective numbers of data
and precisions of the prior on validation data of other tasks.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import vadam
from benchmarks.networks import ResidualNetwork
from benchmarks.tasks import TASKS, Task, intents, lenet, usps
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
SEARCHED = ("fashion", "usps", "residual", "transformer", "boston")
"""Tasks of `benchmarks.tasks` on whose validation data the recipe's numbers were looked for."""
EFFECTIVE = (5e5, 5e6, 5e7)
PRIORS = (10.0, 100.0, 1000.0)


def train(task: Task, optimizer: torch.optim.Optimizer, model: nn.Module, rate: float, seed: int) -> None:
    """Train with the rate falling to zero along a half cosine."""
    for step, (x, y) in enumerate(task.batches(torch.Generator().manual_seed(seed))):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * step / task.steps)) / 2
        optimizer.zero_grad()
        task.likelihood.nll(model(x), y).backward()
        optimizer.step()
    model.eval()


def by(method: str, trial: Trial, rate: float, seed: int, **changes: Any) -> dict[str, float]:
    """Return the scores of AdamW's network, or of the posterior by the recipe with some changes."""
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
        optimizer = vadam.from_adam(model, lr=rate, generator=noise, **sizes, **changes)
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


def compare(tasks: list[str], rates: list[float], seeds: int) -> dict[str, Any]:
    """Return the scores of both methods on test data."""
    results: dict[str, Any] = {}
    for name in tasks:
        trial = TRIALS[name]()
        for rate in rates:
            for method in ("AdamW", "recipe"):
                rows = [by(method, trial, rate, seed) for seed in range(seeds)]
                results.setdefault(name, {})[f"{method}, lr {rate:g}"] = rows
                show(f"{name:<10}{method:<8}lr {rate:<7g}", rows)
    return results


def search(rate: float = 3e-3) -> dict[str, Any]:
    """Return the scores on validation data of AdamW and of the recipe with other numbers."""
    results: dict[str, Any] = {}
    for name in SEARCHED:
        trial = Trial(replace(TASKS[name](), steps=1000))
        results[name] = {"AdamW": by("AdamW", trial, rate, 0)}
        show(f"{name:<12}{'AdamW':<24}", [results[name]["AdamW"]])
        for effective, prior in product(EFFECTIVE, PRIORS):
            changes = {"data_weight": max(1.0, effective / trial.task.N), "prior_precision": prior}
            found = results[name][f"effective {effective:g}, prior {prior:g}"] = by("recipe", trial, rate, 0, **changes)
            show(f"{name:<12}{effective:<12g}{prior:<12g}", [found])
    return results


def show(label: str, rows: list[dict[str, float]]) -> None:
    """Print the means of some rows."""
    means = {what: sum(row[what] for row in rows) / len(rows) for what in rows[0]}
    print(label + "  ".join(f"{what} {value:.4f}" for what, value in means.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TRIALS))
    parser.add_argument("--rates", default="0.001,0.003")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--search", action="store_true", help="validation data, other numbers of the recipe")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(__file__).parent / "results"
    if options.search:
        write(options.out or folder / "recipe_search.json", search(), draws=DRAWS)
    else:
        rates = [float(rate) for rate in options.rates.split(",")]
        write(
            options.out or folder / "recipe.json", compare(options.tasks.split(","), rates, options.seeds), draws=DRAWS
        )


if __name__ == "__main__":
    main()
