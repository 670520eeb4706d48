"""The next point of a Bayesian optimisation, as a function of the points so far.

Optuna's GPSampler: a Gaussian process with a Matérn kernel, and expected improvement. A new sampler is made for every
question, seeded by the search's seed and the number of the trial, so that an interrupted search goes on as if nothing had
happened.
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
"""From the best of 2,048 points spread over the space. Optuna's ten take twice as long and find no better ones."""


def random_point(space: Space, seed: Sequence[int]) -> Point:
    """Every axis is searched in logarithms."""
    rng = np.random.default_rng(seed)
    return {name: min(high, low * (high / low) ** rng.uniform()) for name, (low, high) in space.items()}


def next_point(
    space: Space, tried: Sequence[tuple[Point, float]], seed: Sequence[int], *, robust: bool = True
) -> Point:
    """Where a large value is to be expected, given points and their values.

    A value of −inf stands for a failure. The Gaussian process sees a finite one instead, below the worst of the others by
    their range: bad enough to stay away, near enough not to flatten all differences. ``robust`` does the same for values that
    are finite and hopeless: none is seen further below the median than twice the way from there to the best.
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
    """Several points to try at once, one for each seed, beside those of ``begun``: each as if those before it had come out middling."""
    known = [value for _, value in tried if math.isfinite(value)]
    middling = float(np.median(known)) if known else 0.0
    points = list(begun)
    for seed in seeds:
        pretended = [(point, middling) for point in points]
        points.append(next_point(space, [*tried, *pretended], seed, robust=robust))
    return points[len(begun) :]


def check_space(space: Space) -> None:
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
