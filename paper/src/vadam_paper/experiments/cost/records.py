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
}


def ratio(run: Recorded, method: str, base: str) -> Interval:
    """Return the median over the rounds of the ratio of times in a round."""
    times = run["step"]["milliseconds"]
    return interval([a / b for a, b in zip(times[method], times[base], strict=True)], np.median)


def milliseconds(run: Recorded, method: str) -> float:
    return float(np.median(run["step"]["milliseconds"][method]))
