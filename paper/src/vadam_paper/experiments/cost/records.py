"""Read times and their ratios from the recorded results."""

import numpy as np

from vadam_paper.experiments.intervals import Interval, interval
from vadam_paper.experiments.results import Recorded

NAMES = {
    "adam": "Adam, maximum likelihood",
    "vadam": "Vadam",
    "vprop": "Vprop",
    "vogn": "VOGN",
    "bbvi": "BBVI by weight-perturbation",
    "layers": "BBVI by stochastic layers and Adam",
    "vadam-eager": "Vadam, operators one by one",
    "vprop-eager": "Vprop, operators one by one",
    "vadam-whole": "Vadam’s equations in whole compiled graphs",
    "vprop-whole": "Vprop’s equations in whole compiled graphs",
    "layers-whole": "BBVI by stochastic layers, compiled, and Adam",
    "vadam-compiled": 'Vadam, backend="compiled"',
    "vprop-compiled": 'Vprop, backend="compiled"',
}


def recorded(run: Recorded) -> dict[str, str]:
    """Return the names of the methods that were measured."""
    return {method: name for method, name in NAMES.items() if method in run["step"]["milliseconds"]}


def ratio(run: Recorded, method: str, base: str) -> Interval:
    """Return the median over the rounds of the ratio of times in a round."""
    times = run["step"]["milliseconds"]
    return interval([a / b for a, b in zip(times[method], times[base], strict=True)], np.median)


def milliseconds(run: Recorded, method: str) -> float:
    return float(np.median(run["step"]["milliseconds"][method]))
