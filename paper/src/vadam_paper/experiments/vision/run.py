"""Cells: tune each method by successive halving on Fashion-MNIST, then test it on both sets, seed by seed.

tune.METHOD.RUNG.RANK     a setting that got as far, trained until this rung's epoch
tune.laplace              the precision of the last layer's prior
test.SET.METHOD.SEED      the chosen setting, scored on test images; a pool of all seeds' networks has seed 0 only
draws.METHOD              the loss against the number of draws, Fashion-MNIST, seed 0
speed                     a few steps of every method, in turn
long.METHOD.EPOCHS        the chosen setting with another number of epochs, Fashion-MNIST, seed 0
"""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.vision.config import POOLS, Config

TUNED_ON = "fashion"
SETS = ("fashion", "mnist")
COST = {"vogn": 1.8, "evon": 1.6, "ivon-opt": 1.3}
"""Expected cost of an epoch, AdamW's is 1."""
SCORING = 2.0
"""Expected cost of scoring on test images, in epochs."""
WITHOUT_TRAINING = ("adamw-scaled", "laplace", *POOLS)
STUDIED = ("adamw", "vadam", "ivon")


def cells(config: Config) -> dict[str, float]:
    """Return the cells in an order in which the first ones are useful without the others."""
    from vadam_paper.experiments.vision.methods import order

    first, pools, others = order(config.methods)
    studied = [method for method in STUDIED if method in config.methods]
    found = _tunings(config, first) | _tests(config, first)
    found |= {f"test.{name}.{method}.0": _cost(config, name, method, 0) for method in pools for name in SETS}
    found |= {f"draws.{method}": SCORING for method in studied if method != "adamw"} | {"speed": SCORING}
    found |= _tunings(config, others) | _tests(config, others)
    found |= {f"long.{method}.{epochs}": epochs + SCORING for epochs in config.long for method in studied}
    return found


def _tests(config: Config, methods: tuple[str, ...]) -> dict[str, float]:
    return {
        f"test.{name}.{method}.{seed}": _cost(config, name, method, seed)
        for seed in range(config.seeds)
        for name in SETS
        for method in methods
    }


def _tunings(config: Config, methods: tuple[str, ...]) -> dict[str, float]:
    return {key: cost for method in methods for key, cost in _tuning(config, method).items()}


def _tuning(config: Config, method: str) -> dict[str, float]:
    from vadam_paper.experiments.vision.methods import tuned

    if method == "laplace":
        return {"tune.laplace": SCORING}
    if method not in tuned(config.methods):
        return {}
    starts = (0, *(epochs for epochs, _ in config.rungs))
    return {
        f"tune.{method}.{rung}.{rank}": COST.get(method, 1.0) * (epochs - starts[rung])
        for rung, (epochs, settings) in enumerate(config.rungs)
        for rank in range(settings)
    }


def _cost(config: Config, name: str, method: str, seed: int) -> float:
    """Return the expected cost of a test, in epochs of AdamW."""
    is_trained = method in WITHOUT_TRAINING or (name == TUNED_ON and seed == 0)
    return SCORING + (0.0 if is_trained else COST.get(method, 1.0) * config.epochs)


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.vision.study import Study

    kind, *rest = key.split(".")
    study = Study(config, context)
    if kind == "tune":
        return study.tune_laplace() if rest == ["laplace"] else study.tune(rest[0], int(rest[1]), int(rest[2]))
    if kind == "draws":
        return study.draws(rest[0])
    if kind == "speed":
        return study.speed()
    if kind == "long":
        return study.longer(rest[0], int(rest[1]))
    return study.test(rest[0], rest[1], int(rest[2]))
