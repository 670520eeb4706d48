"""Read recorded runs for table, figures and claims."""

import numpy as np

from vadam_paper.experiments.results import Recorded

NAMES = {
    "adam": "Adam",
    "vadam": "Vadam",
    "vogn": "VOGN",
    "ivon": "IVON",
    "mc-dropout": "MC-Dropout",
    "deep-ensemble": "Deep ensemble",
    "deep-ensemble-full": "Deep ensemble, 5 × the budget",
    "adagrad": "AdaGrad",
    "vadagrad": "VadaGrad",
}
NORMS = {"group": "GroupNorm", "batch": "BatchNorm"}
OOD_KINDS = ("rotated", "inverted", "noise")
QUANTILES = ("5 %", "50 %", "95 %")
"""Recorded quantiles of the precision."""


def found(run: Recorded) -> list[tuple[str, str]]:
    """Return the recorded pairs of norm and method, in the order of the table."""
    return [(norm, method) for norm in NORMS for method in NAMES if f"{norm}-{method}" in run]


def values(run: Recorded, norm: str, method: str, what: str) -> np.ndarray:
    """Return one number for each seed; ``auroc`` is the mean over the kinds of out-of-distribution inputs."""
    seeds = run[f"{norm}-{method}"]["seeds"]
    if what == "auroc":
        return np.mean([[seed[f"auroc_{kind}"] for kind in OOD_KINDS] for seed in seeds], axis=1)
    return np.asarray([seed[what] for seed in seeds], dtype=float)
