"""Cells: settings are chosen on validation images, then tested seed by seed.

continual.tune.METHOD   continual.METHOD.SEED     permuted MNIST, task after task
merge.linear            merge.logistic            halves of regressions beside the exact posterior of all rows
merge.tune.RULE         merge.RULE.SEED           networks of two halves of MNIST
prune.tune.METHOD       prune.METHOD.SEED         LeNet-5 on Fashion-MNIST
"""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.posterior.config import Config

STUDIES = {
    "continual": ("adam", "vadam", "vadam-ggn", "joint"),
    "merge": ("merged", "average", "adam-average"),
    "prune": ("vadam", "adam"),
}
SECONDS = {"continual": 3.0, "merge": 3.0, "prune": 12.0}
"""Cost of one training of a study."""


def cells(config: Config) -> dict[str, float]:
    found = {"merge.linear": 0.1, "merge.logistic": 1.0}
    trials = config.settings or 6
    for study, names in STUDIES.items():
        found |= {f"{study}.tune.{name}": SECONDS[study] * trials for name in names}
    for seed in range(config.seeds):
        found |= {f"{study}.{name}.{seed}": SECONDS[study] for study, names in STUDIES.items() for name in names}
    return found


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.posterior import continual, merging, pruning

    if key == "merge.linear":
        return merging.linear(config)
    if key == "merge.logistic":
        return merging.logistic_halves(config, context.data)
    study, *names = key.split(".")
    program: Any = {"continual": continual, "merge": merging, "prune": pruning}[study]
    if names[0] == "tune":
        found: dict[str, Any] = program.tune(config, names[1], context.data)
        return found
    settings = context.result_of(f"{study}.tune.{names[0]}")["settings"]
    tested: dict[str, Any] = program.test(config, names[0], settings, int(names[1]), context.data)
    return tested
