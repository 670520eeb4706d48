"""The next point of a Bayesian optimisation, as a function of the points so far.

Optuna's GPSampler: a Gaussian process with a Matérn kernel and the expected improvement in logarithms. A new sampler is made
for every question, seeded by the search's seed and the number of the trial, so that an interrupted search goes on as if
nothing had happened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

Space = Mapping[str, tuple[float, float]]
Point = dict[str, float]


def suggest(space: Space, tried: Sequence[tuple[Point, float]], *, startup: int, seed: int) -> Point:
    """The next point to try to make the value large; all axes are searched in logarithms. The first ``startup`` are random.

    A value of −inf stands for a failure. The Gaussian process sees it as a bad value, one range of the others below their
    worst: bad enough to stay away, near enough not to flatten all differences.
    """
    if len(tried) < startup:
        rng = np.random.default_rng([seed, len(tried)])
        return {name: float(low * (high / low) ** rng.uniform()) for name, (low, high) in space.items()}
    optuna = _optuna()
    axes = {name: optuna.distributions.FloatDistribution(low, high, log=True) for name, (low, high) in space.items()}
    sampler = optuna.samplers.GPSampler(seed=int(np.random.default_rng([seed, len(tried)]).integers(2**31)), n_startup_trials=1)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    trial = optuna.trial.create_trial
    points = zip((point for point, _ in tried), _finite([value for _, value in tried]), strict=True)
    study.add_trials([trial(params=point, distributions=axes, value=value) for point, value in points])
    return dict(study.ask(axes).params)


def check_space(space: Space) -> None:
    if not space:
        raise ValueError("the space is empty: give at least one name with its bounds, e.g. prior_precision=(0.01, 100)")
    for name, bounds in space.items():
        low, high = bounds
        if not 0 < low < high < math.inf:
            raise ValueError(f"the bounds {bounds!r} of {name!r} are not valid: give two numbers with 0 < low < high")


def _finite(values: list[float]) -> list[float]:
    good = [value for value in values if math.isfinite(value)]
    if not good:
        return [0.0] * len(values)
    bad = min(good) - max(max(good) - min(good), 1.0)
    return [value if math.isfinite(value) else bad for value in values]


def _optuna() -> "module":
    try:
        import optuna
    except ImportError as error:
        raise ImportError('tuning needs Optuna: pip install "vadam[tune]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
