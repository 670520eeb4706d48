"""Cells: tune each method by successive halving on Fashion-MNIST, then test it on both sets, seed by seed.

tune.METHOD.RUNG.RANK     a setting that got as far, trained until this rung's epoch
tune.laplace              the precision of the last layer's prior
test.SET.METHOD.SEED      the chosen setting, scored on test images
long.METHOD.EPOCHS        the same with another number of epochs, Fashion-MNIST, seed 0
"""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.vision.config import Config

TUNED_ON = "fashion"
SETS = ("fashion", "mnist")
COST = {"vogn": 2.0, "vadam-ggn": 2.0, "evon": 2.0, "deep-ensemble": 5.0, "mixture": 5.0}
"""Expected cost of an epoch, AdamW's is 1."""
SCORING = 8.0
"""Expected cost of scoring on test images, in epochs."""
POOLS = ("deep-ensemble", "mixture")
WITHOUT_TRAINING = ("adamw-scaled", "laplace")
LONG = ("adamw", "vadam", "ivon")


def cells(config: Config) -> dict[str, float]:
    from vadam_paper.experiments.vision.methods import available, order

    found: dict[str, float] = {}
    for group in order(config.methods):
        for method in group:
            found |= _tuning(config, method) | _test(config, TUNED_ON, method, 0)
        for method in group:
            found |= _test(config, SETS[1], method, 0)
    for method in (method for method in LONG if method in config.methods):
        found |= {f"long.{method}.{epochs}": epochs + SCORING for epochs in config.long}
    for seed in range(1, config.seeds):
        for name in SETS:
            for method in available(config.methods):
                found |= _test(config, name, method, seed)
    return found


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


def _test(config: Config, name: str, method: str, seed: int) -> dict[str, float]:
    is_trained = method in WITHOUT_TRAINING or (method not in POOLS and name == TUNED_ON and seed == 0)
    training = 0.0 if is_trained else COST.get(method, 1.0) * config.epochs
    return {f"test.{name}.{method}.{seed}": training + SCORING}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.vision.study import Study

    kind, *rest = key.split(".")
    study = Study(config, context)
    if kind == "tune":
        return study.tune_laplace() if rest == ["laplace"] else study.tune(rest[0], int(rest[1]), int(rest[2]))
    if kind == "long":
        return study.longer(rest[0], int(rest[1]))
    return study.test(rest[0], rest[1], int(rest[2]))
