"""Suggest the next point of a Bayesian optimisation as a function of the points so far.

The suggestion comes from Optuna's GPSampler: a Gaussian process with a Matérn kernel, and expected improvement. Every call makes a new
sampler, seeded by the search and the number of the trial, so that an interrupted search continues exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Space = Mapping[str, tuple[float, float]]
Point = dict[str, float]

LOCAL_SEARCHES = 3
"""Number of local searches, from the best of 2,048 points. Optuna's default of 10 takes twice as long and finds no better points."""


def random_point(space: Space, seed: Sequence[int]) -> Point:
    """Return a random point, uniform in the logarithm of every axis."""
    rng = np.random.default_rng(seed)
    return {name: min(high, low * (high / low) ** rng.uniform()) for name, (low, high) in space.items()}


def next_point(
    space: Space, tried: Sequence[tuple[Point, float]], seed: Sequence[int], *, robust: bool = True
) -> Point:
    """Return the point with the largest expected improvement, given points and their values.

    A value of −inf marks a failure. The Gaussian process sees a finite value instead: the worst of the others minus their range.
    With ``robust``, it sees no value further below the median than twice the distance from the median to the best.
    """
    with _quiet_optuna() as optuna:
        axes = {name: optuna.distributions.FloatDistribution(*bounds, log=True) for name, bounds in space.items()}
        sampler_seed = int(np.random.default_rng(seed).integers(2**31))
        sampler = optuna.samplers.GPSampler(seed=sampler_seed, n_startup_trials=1)
        sampler._n_local_search = LOCAL_SEARCHES
        study = optuna.create_study(direction="maximize", sampler=sampler)
        values = _finite([value for _, value in tried])
        for (point, _), value in zip(tried, _near(values) if robust else values, strict=True):
            study.add_trial(optuna.trial.create_trial(params=point, distributions=axes, value=value))
        return dict(study.ask(axes).params)


def next_points(
    space: Space,
    tried: Sequence[tuple[Point, float]],
    begun: Sequence[Point],
    seeds: Sequence[Sequence[int]],
    *,
    robust: bool = True,
) -> list[Point]:
    """Return one point per seed, to be tried together with those of ``begun``.

    Each is chosen as if the points before it had the median value.
    """
    known = [value for _, value in tried if math.isfinite(value)]
    middling = float(np.median(known)) if known else 0.0
    points = list(begun)
    for seed in seeds:
        pretended = [(point, middling) for point in points]
        points.append(next_point(space, [*tried, *pretended], seed, robust=robust))
    return points[len(begun) :]


def check_space(space: Space) -> None:
    """Raise ValueError if the space is empty or a bound is not positive."""
    if not space:
        raise ValueError("the space is empty: give a name and its bounds, e.g. {'prior_precision': (0.01, 100.0)}")
    for name, bounds in space.items():
        if len(bounds) != 2 or not 0 < bounds[0] < bounds[1] < math.inf:
            raise ValueError(f"the bounds {bounds!r} of {name!r} are not valid: give two numbers, 0 < low < high")


def _finite(values: list[float]) -> list[float]:
    good = [value for value in values if math.isfinite(value)]
    if not good:
        return [0.0] * len(values)
    bad = min(good) - max(max(good) - min(good), 1.0)
    return [value if math.isfinite(value) else bad for value in values]


def _near(values: list[float]) -> list[float]:
    middle, best = float(np.median(values)), max(values)
    floor = middle - 2 * (best - middle) if best > middle else -math.inf
    return [max(value, floor) for value in values]


@contextmanager
def _quiet_optuna() -> Iterator[Any]:
    try:
        import optuna
    except ImportError as error:
        raise ImportError('tuning needs Optuna: pip install "vadam[tune]"') from error
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(verbosity)
