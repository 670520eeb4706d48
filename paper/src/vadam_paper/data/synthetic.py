"""Sets the project draws itself. The same seed gives the same set on every machine."""

import numpy as np
from numpy.typing import NDArray

from vadam.data.formats import Arrays


def murphy_like(*, n_per_class: int = 30, seed: int = 0) -> Arrays:
    """Two Gaussian clouds, as in Murphy (2012), Fig. 8.6, and the toy set of Fig. 2(a):

    y = 1: x ~ N((1, 5), 1²),  y = 0: x ~ N((−5, 1), 2.2²)
    """
    random = np.random.default_rng(seed)
    ones = random.normal((1.0, 5.0), 1.0, size=(n_per_class, 2))
    zeros = random.normal((-5.0, 1.0), 2.2, size=(n_per_class, 2))
    return np.concatenate([ones, zeros]), np.repeat([1.0, 0.0], n_per_class)


def cubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The curve behind ``cubic-gap``, without noise."""
    return x**3


def cubic_gap(*, n: int = 100, noise_std: float = 3.0, seed: int = 0) -> Arrays:
    """One input, a gap in the middle, room to extrapolate (Hernández-Lobato & Adams 2015, with a gap):

    y = x³ + ε,  ε ~ N(0, noise_std²),  x uniform on [−4, −1.5] ∪ [1.5, 4]
    """
    random = np.random.default_rng(seed)
    x = random.uniform(1.5, 4.0, size=n) * random.choice([-1.0, 1.0], size=n)
    x.sort()
    return x[:, None], cubic(x) + noise_std * random.standard_normal(n)
