"""Cells: embed the queries, tune each method on validation queries, test it seed by seed.

embed                     the embeddings of all queries, kept in the cache
tune.SIZE.METHOD          all settings of a method
test.SIZE.METHOD.SEED     the best one, scored on test queries and on queries out of scope
"""

from typing import TYPE_CHECKING, Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.intent.config import Config

if TYPE_CHECKING:
    from vadam.prediction import Classes
    from vadam_paper.experiments.intent.task import Task


def cells(config: Config) -> dict[str, float]:
    from vadam_paper.experiments.intent.methods import SPACES

    found = {"embed": 0.1 if config.synthetic else 30.0}
    for size in config.sizes:
        for method in config.methods:
            if method in SPACES:
                found[f"tune.{size}.{method}"] = float(config.trials)
            found[f"test.{size}.{method}.0"] = 1.0
    return found | {
        f"test.{size}.{method}.{seed}": 1.0
        for seed in range(1, config.seeds)
        for size in config.sizes
        for method in config.methods
    }


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.intent.task import load

    kind, *rest = key.split(".")
    if kind == "embed":
        task = load(config, config.sizes[0], context.data, context.report)
        return {"train": len(task.train.y), "test": len(task.test.y), "out_of_scope": len(task.out_of_scope)}
    task = load(config, rest[0], context.data)
    if kind == "tune":
        return _tune(config, rest[1], task, context)
    return _test(config, rest[0], rest[1], int(rest[2]), task, context)


def _tune(config: Config, method: str, task: "Task", context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.intent.methods import settings
    from vadam_paper.experiments.intent.train import fit
    from vadam_paper.experiments.randomness import generator

    search = []
    for trial in range(config.trials):
        tried = settings(method, trial)
        fitted = fit(config, method, tried, 0, task)
        noise = generator(config.seed, "validation")
        loss = _nll(fitted.predict(task.validation.X, config.samples, noise), task.validation.y)
        search.append({**tried, "nll": loss if loss == loss else float("inf")})
        context.report((trial + 1) / config.trials)
    best = min(range(config.trials), key=lambda trial: search[trial]["nll"])
    return {"search": search, "settings": settings(method, best)}


def _test(config: Config, size: str, method: str, seed: int, task: "Task", context: CellContext) -> dict[str, Any]:
    from vadam import metrics
    from vadam.calibration import TemperatureScaling
    from vadam_paper.experiments.intent.methods import SETTINGS_FROM
    from vadam_paper.experiments.intent.train import fit
    from vadam_paper.experiments.ood_detection import separation
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
    y, probs = task.test.y, home.probs
    found = {
        "settings": chosen,
        "cpu_seconds": fitted.cpu_seconds,
        "nll": _nll(home, y),
        "accuracy": float(metrics.accuracy(probs, y)),
        "ece": float(metrics.ece(probs, y)),
        "brier": float(metrics.brier(probs, y)),
        "aurc": float(metrics.aurc(home.entropy, (home.label != y).to(probs.dtype))),
        "entropy": separation(home.entropy, away.entropy),
    }
    if fitted.posterior is not None:
        found["mutual_information"] = separation(home.mutual_information, away.mutual_information)
    return found


def _nll(prediction: "Classes", y: Any) -> float:
    return float(-prediction.log_prob(y).mean())
