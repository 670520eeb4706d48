"""The table of an artefact: the paper's number beside ours under each protocol."""

from collections.abc import Sequence

from vadam.report.html import Table

__all__ = ["Table", "median_and_quartiles"]


def median_and_quartiles(values: Sequence[float], digits: int = 4) -> str:
    """Return the median with its quartiles as text."""
    low, middle, high = values
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
