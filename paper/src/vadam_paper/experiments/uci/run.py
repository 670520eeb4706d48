"""Run one cell for each method and set: rounds of search over all splits in lock step, then the final runs."""

from typing import Any

import numpy as np

from vadam.ensemble import Member, Training, train
from vadam.tuning import JournalError, Tuned, tune
from vadam_paper import data
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.uci import best, methods
from vadam_paper.experiments.uci.config import LARGE, Best, Config, data_set, splits
from vadam_paper.experiments.uci.split_networks import at, final_members, folds, searches

MICROSECONDS_A_STEP = {
    "vadam": (80, 130),
    "bbvi": (180, 260),
    "vogn": (100, 150),
    "vprop": (80, 120),
    "mc-dropout": (45, 130),
}
"""Time per step, with minibatches of 32 and of 128."""
SECONDS_A_QUESTION = 0.07


def cells(config: Config) -> dict[str, float]:
    """Return the cells with their costs in seconds: Vadam and BBVI set by set, the extra cells, then the other methods."""
    pair = [method for method in ("vadam", "bbvi") if method in config.methods]
    others = [method for method in config.methods if method not in pair]
    first = [f"{method}-{name}" for name in config.sets for method in pair]
    then = [f"{method}-{name}" for method in others for name in config.sets]
    return {key: sum(_costs(config, *_parsed(key))) for key in (*first, *config.extra, *then)}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    method, name = _parsed(key)
    finals = final_members(config, name, context.data, method)
    found = _search(config, method, name, finals[: searches(config, name, method)], context)
    points = [tuned.point for tuned in found.values()]
    if len(points) < len(finals):
        points *= len(finals)
    result = {
        "point": {axis: [point[axis] for point in points] for axis in points[0]},
        "value": [tuned.value for tuned in found.values()],
        "failed_trials": [sum(not np.isfinite(t.value) for t in tuned.trials) for tuned in found.values()],
    }
    if isinstance(config, Best):
        return result | best.final(config, method, name, at(points, finals), context.workers)
    result |= _final(config, method, name, at(points, finals), context)
    if method == "vadam" and name in config.sets:
        result["vprop"] = _final(config, "vprop", name, at(points, finals), context)
    return result


def _parsed(key: str) -> tuple[str, str]:
    """Return the method and the set of a cell."""
    method, name = key.rsplit("-", 1)
    return method, name


def _search(config: Config, method: str, name: str, finals: list[Member], context: CellContext) -> dict[str, Tuned]:
    """Search the hyper-parameters; every round is on disk before the next begins."""
    context.restore()  # restores the elapsed time of earlier attempts
    search, final = _costs(config, method, name)

    def move(done: int, of: int) -> None:
        context.report(done / of * search / (search + final))
        context.checkpoint({}, {"trials": done})

    try:
        return tune(
            {f"{name}-{split}": folds(config, member) for split, member in enumerate(finals)},
            methods.space(config, method, name),
            trials=config.trials,
            startup=config.startup,
            metric=methods.objective(config, method),
            robust=methods.robust(config, method),
            seed=config.seed,
            journal=context.journal,
            progress=move,
            jobs=context.workers,
            **methods.setting(config, method, name),
        )
    except JournalError as error:  # the journal was written by another version of this package
        raise ExperimentError(f"The search of {method} on {name} cannot go on: {error}.") from error


def _final(config: Config, method: str, name: str, members: list[Member], context: CellContext) -> dict[str, Any]:
    """Retrain on the whole training part at the point found, and score on the test part after every epoch."""
    setting = methods.setting(config, method, name)
    training = train(members, keep=False, history=True, jobs=context.workers, **setting)
    return dict(training.scores) | {"curve": _curves(training)}


def _curves(training: Training) -> dict[str, Any]:
    """Return the RMSE of every split after every epoch, [splits, epochs], and mean log-likelihoods over the splits."""
    rmse, *others = ("rmse", "log_likelihood", "joint_log_likelihood")
    curves = {name: np.stack([curve.numpy() for curve in training.history[name]]) for name in (rmse, *others)}
    return {rmse: _five_digits(curves[rmse])} | {name: _five_digits(curves[name].mean(0)) for name in others}


def _five_digits(values: np.ndarray) -> Any:
    return np.vectorize(_short)(values)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _costs(config: Config, method: str, name: str) -> tuple[float, float]:
    """Return the expected seconds of the searches and of the final runs."""
    rows = 0.9 * data.registry.find(data_set(name)).n
    of_folds = config.folds * (1 - 1 / config.folds) * rows
    finals = config.members * (rows + of_folds) if isinstance(config, Best) else rows
    samples = 4 if isinstance(config, Best) else 1  # one sample a step is cheaper
    steps_a_row = methods.epochs(config, name) / methods.batch_size(name) / samples
    microseconds = MICROSECONDS_A_STEP[method.removesuffix(methods.PRINTED)][data_set(name) in LARGE]
    seconds_a_row = 1e-6 * microseconds * steps_a_row
    questions = SECONDS_A_QUESTION * (config.trials - config.startup)
    search = config.trials * of_folds * seconds_a_row + questions
    return searches(config, name, method) * search, splits(config, name, method) * finals * seconds_a_row
