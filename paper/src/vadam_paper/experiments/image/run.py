"""Run one cell for each norm and method: choose settings on the development images, then run all seeds with them."""

from typing import TYPE_CHECKING, Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.image.config import Config
from vadam_paper.experiments.timing import Stopwatch

if TYPE_CHECKING:
    import torch

    from vadam_paper.experiments.image.task import Task
    from vadam_paper.experiments.image.train import Plan

COST = {"vogn": 2.5, "deep-ensemble-full": 3.0, "adam": 0.7}
SETTINGS_FROM = {"deep-ensemble-full": "adam"}
"""Methods whose settings are chosen with a single network of another method."""


def cells(config: Config) -> dict[str, float]:
    return {f"{norm}-{method}": COST.get(method, 1.0) for norm in config.norms for method in config.methods}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    import torch

    from vadam_paper.experiments.image import task as tasks
    from vadam_paper.experiments.image.methods import GRIDS
    from vadam_paper.experiments.image.scores import validation_score
    from vadam_paper.experiments.image.train import Plan, fit
    from vadam_paper.experiments.randomness import generator

    norm, method = key.split("-", 1)
    parts = tasks.load(config)
    tried = GRIDS[method][: config.trials]
    restored = context.restore()
    done: list[Any] = restored[1]["done"] if restored else []

    def finished(result: Any) -> None:
        done.append(result)
        context.report(len(done) / (len(tried) + config.seeds))
        context.checkpoint({"done": torch.tensor(len(done))}, {"done": done})

    for settings in tried[len(done) :]:
        found = []
        for k, fold in enumerate(tasks.folds(config, parts)):
            plan = Plan(config, norm, SETTINGS_FROM.get(method, method), settings, ("fold", k))
            fitted = fit(plan, fold.X, fold.y, fold.classes)
            noise = generator(config.seed, "fold", k, "prediction")
            found.append(validation_score(fitted, fold, config.samples, noise))
        finished(sum(found) / len(found))
    chosen = tried[done.index(max(done[: len(tried)]))]
    for seed in range(len(done) - len(tried), config.seeds):
        finished(seed_result(Plan(config, norm, method, chosen, ("seed", seed)), tasks.task(config, parts, seed)))
    search = [{**settings, "log_likelihood": score} for settings, score in zip(tried, done, strict=False)]
    return {"chosen": chosen, "search": search, "seeds": done[len(tried) :]}


def seed_result(plan: "Plan", task: "Task") -> dict[str, Any]:
    """Return the test scores, the cost of the training, and the distribution of the precision over the weights."""
    from vadam_paper.experiments.image.methods import START, Data, remaining_start
    from vadam_paper.experiments.image.scores import isotropic, scores, spread
    from vadam_paper.experiments.image.train import fit, steps_per_epoch
    from vadam_paper.experiments.randomness import generator

    config, clock = plan.config, Stopwatch()
    fitted = fit(plan, task.X, task.y, task.classes)
    cost = clock.elapsed().cpu_seconds

    def noise() -> "torch.Generator":
        return generator(config.seed, *plan.names, "prediction")

    result = scores(fitted, task, config.samples, noise()) | {"training_cpu_seconds": cost}
    if plan.method in START:
        data, steps = Data(len(task.X), config.temperature), config.epochs * steps_per_epoch(config, len(task.X))
        parts = {
            "prior": plan.settings["prior_precision"] / data.temperature,
            "start": remaining_start(plan.method, plan.settings, data, steps),
        }
        result |= {
            "precision": spread(fitted.posterior) | parts,
            "isotropic": isotropic(fitted, task, config.samples, noise()),
        }
    return result
