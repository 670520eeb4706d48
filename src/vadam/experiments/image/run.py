"""One cell for each norm and method: its settings are chosen on part of the training images, then all seeds run with them."""

from typing import Any

from vadam.experiments.clock import Clock
from vadam.experiments.image.config import Config
from vadam.experiments.work import Work

COST = {"vogn": 2.5, "deep-ensemble-full": 3.0, "adam": 0.7}
ALONE = {"deep-ensemble-full": "adam"}
"""Whose settings are tried on a single network."""


def cells(config: Config) -> dict[str, float]:
    return {f"{norm}-{method}": COST.get(method, 1.0) for norm in config.norms for method in config.methods}


def run_cell(config: Config, key: str, work: Work) -> dict[str, Any]:
    import torch

    from vadam.experiments.image import task as tasks
    from vadam.experiments.image.methods import GRIDS
    from vadam.experiments.image.scores import scores, validation_score
    from vadam.experiments.image.train import Plan, fit
    from vadam.experiments.randomness import generator

    norm, method = key.split("-", 1)
    task = tasks.load(config)
    tried = GRIDS[method][: config.trials]
    restored = work.restore()
    done: list[Any] = restored[1]["done"] if restored else []

    def finished(result: Any) -> None:
        done.append(result)
        work.report(len(done) / (len(tried) + config.seeds))
        work.checkpoint({"done": torch.tensor(len(done))}, {"done": done})

    held_out = round(config.validation_share * len(task.X))
    for settings in tried[len(done) :]:
        plan = Plan(config, norm, ALONE.get(method, method), settings, ("trial",))
        fitted = fit(plan, task.X[held_out:], task.y[held_out:], task.classes)
        noise = generator(config.seed, "trial", "prediction")
        finished(validation_score(fitted, task.X[:held_out], task.y[:held_out], config.samples, noise))
    found = done[: len(tried)]
    chosen = tried[found.index(max(found))]
    for seed in range(len(done) - len(tried), config.seeds):
        clock = Clock()
        fitted = fit(Plan(config, norm, method, chosen, ("seed", seed)), task.X, task.y, task.classes)
        cost = clock.took().cpu_seconds
        noise = generator(config.seed, "seed", seed, "prediction")
        finished(scores(fitted, task, config.samples, noise) | {"training_cpu_seconds": cost})
    search = [{**settings, "log_likelihood": score} for settings, score in zip(tried, found, strict=True)]
    return {"chosen": chosen, "search": search, "seeds": done[len(tried) :]}
