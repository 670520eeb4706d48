"""Cells: logistic regressions by set and method, a small network by method, LeNet-5 by method and setting, then by seed.

logistic.SET.exact        the exact Gaussians and the nearest diagonal one
logistic.SET.METHOD       all rates and seeds at once
network.full, .METHOD     correlations on a small network; the methods start where ``network.full`` started
tune.METHOD.SETTING       LeNet-5, validation images
test.METHOD.SEED          LeNet-5, test images, with the setting that was best for IVON: equal settings for both
"""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.correlated.config import Config

SETS = {"toy": "toy_steps", "breast-cancer": "breast_cancer_steps", "usps": "usps_steps"}
DIAGONAL = ("vadam", "vadam-batch-size", "vadam-ggn", "vogn", "ivon")
METHODS = (*DIAGONAL, "evon")
ROTATED = ("ivon", "evon")


def cells(config: Config) -> dict[str, float]:
    """Return the cells with their costs; one that others depend on costs more, so that it runs before them."""
    found: dict[str, float] = {}
    for name in SETS:
        found |= {f"logistic.{name}.exact": 1.0}
        found |= {
            f"logistic.{name}.{method}": 60.0 if (name, method) == ("usps", "evon") else 5.0 for method in METHODS
        }
    found |= {"network.full": 35.0} | {f"network.{method}": 30.0 for method in ROTATED}
    settings = len(config.image_rates) * len(config.data_weights)
    found |= {f"tune.{method}.{setting}": 30.0 for setting in range(settings) for method in ROTATED}
    return found | {f"test.{method}.{seed}": 25.0 for seed in range(config.image_seeds) for method in ROTATED}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    kind, first, *rest = key.split(".")
    if kind == "logistic":
        from vadam_paper.experiments.correlated import logistic

        return logistic.exact(first, context) if rest == ["exact"] else logistic.fit(config, first, rest[0], context)
    if kind == "network":
        from vadam_paper.experiments.correlated import network

        return network.reference(config, context) if first == "full" else network.compare(config, first, context)
    from vadam_paper.experiments.correlated import images

    run = images.tune if kind == "tune" else images.test
    return run(config, first, int(rest[0]), context)
