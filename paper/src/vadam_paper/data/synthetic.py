"""Generated data sets; the same seed gives the same set on every machine."""

import numpy as np
from numpy.typing import NDArray

from vadam.data import murphy_like
from vadam_paper.data.formats import Arrays

__all__ = ["cubic", "cubic_gap", "murphy_like"]


def cubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the curve behind ``cubic-gap``, without noise."""
    return x**3


def cubic_gap(*, n: int = 100, noise_std: float = 3.0, seed: int = 0) -> Arrays:
    """Draw a cubic with a gap in the inputs (Hernández-Lobato & Adams 2015, with a gap).

    y = x³ + ε,  ε ~ N(0, noise_std²),  x uniform on [−4, −1.5] ∪ [1.5, 4]
    """
    random = np.random.default_rng(seed)
    x = random.uniform(1.5, 4.0, size=n) * random.choice([-1.0, 1.0], size=n)
    x.sort()
    return x[:, None], cubic(x) + noise_std * random.standard_normal(n)
