"""The table of an artefact: the paper's number beside ours under each protocol."""

from collections.abc import Sequence

import numpy as np

from vadam.report.html import Table

__all__ = ["Table", "mean_and_deviation", "median_and_quartiles"]


def mean_and_deviation(values: Sequence[float] | np.ndarray, digits: int) -> str:
    """Return the mean as text, with the standard deviation of two or more values; a dash if no value is finite."""
    array = np.asarray(values, dtype=float)
    if not np.isfinite(array).any():
        return "–"
    deviation = f" ± {array.std(ddof=1):.{digits}f}" if len(array) > 1 else ""
    return f"{array.mean():.{digits}f}{deviation}".replace("-", "−")


def median_and_quartiles(values: Sequence[float], digits: int = 4) -> str:
    """Return the median with its quartiles as text."""
    low, middle, high = values
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
