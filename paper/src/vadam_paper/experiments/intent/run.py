"""Cells: embed the queries, tune each method on validation queries, test it seed by seed.

embed                     the embeddings of all queries, kept in the cache
tune.SIZE.METHOD          all settings of a method, for the last layer
test.SIZE.METHOD.SEED     the best one, scored on test queries and on queries out of scope
tune.WAY.METHOD.TRIAL     one setting of a method, for the whole network
test.WAY.METHOD.SEED      the best one
"""

from typing import TYPE_CHECKING, Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.intent.config import WAYS, Config

if TYPE_CHECKING:
    from vadam.prediction import Classes
    from vadam_paper.experiments.intent.task import Task


COST = {"lora": 40.0, "full": 60.0}
"""Expected cost of one fine-tuning, in trainings of the last layer."""


def cells(config: Config) -> dict[str, float]:
    from vadam_paper.experiments.intent.methods import SPACES

    found = {"embed": 0.1 if config.synthetic else 30.0}
    for size in config.sizes:
        for method in config.methods:
            if method in SPACES:
                found[f"tune.{size}.{method}"] = float(config.trials)
            found[f"test.{size}.{method}.0"] = 1.0
    found |= {
        f"test.{size}.{method}.{seed}": 1.0
        for seed in range(1, config.seeds)
        for size in config.sizes
        for method in config.methods
    }
    for way in config.ways:
        found |= _fine_tuning(config, way)
    return found


def _fine_tuning(config: Config, way: str) -> dict[str, float]:
    from vadam_paper.experiments.intent.finetune import methods

    cost = 0.5 if config.synthetic else COST[way]
    tuning = {f"tune.{way}.{m}.{trial}": cost for m in methods(config, way) for trial in range(config.way_trials)}
    tests = {f"test.{way}.{m}.{seed}": 2 * cost for seed in range(config.way_seeds) for m in methods(config, way)}
    return tuning | tests


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.intent.task import load

    kind, *rest = key.split(".")
    if kind != "embed" and rest[0] in WAYS:
        from vadam_paper.experiments.intent import finetune_cells

        work = finetune_cells.tune if kind == "tune" else finetune_cells.test
        return work(config, rest[0], rest[1], int(rest[2]), context)
    if kind == "embed":
        task = load(config, config.sizes[0], context.data, context.report)
        return {"train": len(task.train.y), "test": len(task.test.y), "out_of_scope": len(task.out_of_scope)}
    task = load(config, rest[0], context.data)
    if kind == "tune":
        return _tune(config, rest[1], task, context)
    return _test(config, rest[0], rest[1], int(rest[2]), task, context)


def _tune(config: Config, method: str, task: "Task", context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.intent.methods import settings
    from vadam_paper.experiments.intent.scores import nll
    from vadam_paper.experiments.intent.train import fit
    from vadam_paper.experiments.randomness import generator

    search = []
    for trial in range(config.trials):
        tried = settings(method, trial)
        fitted = fit(config, method, tried, 0, task)
        noise = generator(config.seed, "validation")
        loss = nll(fitted.predict(task.validation.X, config.samples, noise), task.validation.y)
        search.append({**tried, "nll": loss if loss == loss else float("inf")})
        context.report((trial + 1) / config.trials)
    best = min(range(config.trials), key=lambda trial: search[trial]["nll"])
    return {"search": search, "settings": settings(method, best)}


def _test(config: Config, size: str, method: str, seed: int, task: "Task", context: CellContext) -> dict[str, Any]:
    from vadam.calibration import TemperatureScaling
    from vadam_paper.experiments.intent.methods import SETTINGS_FROM
    from vadam_paper.experiments.intent.scores import scores
    from vadam_paper.experiments.intent.train import fit
    from vadam_paper.experiments.randomness import generator

    source = SETTINGS_FROM.get(method, method)
    chosen = context.result_of(f"tune.{size}.{source}")["settings"]
    fitted = fit(config, source, chosen, seed, task)

    def predict(X: Any) -> "Classes":
        return fitted.predict(X, config.samples, generator(config.seed, "prediction", seed))

    home, away = predict(task.test.X), predict(task.out_of_scope)
    if method == "adamw-scaled":
        scaling = TemperatureScaling.fit(predict(task.validation.X), task.validation.y)
        home, away, chosen = scaling(home), scaling(away), {"temperature": scaling.temperature}
    found = {"settings": chosen, "cpu_seconds": fitted.cpu_seconds}
    return found | scores(home, task.test.y, away, sampled=fitted.posterior is not None)
