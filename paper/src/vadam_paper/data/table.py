"""The types that loaders return: a table, a text, an index split."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vadam.data import Split

__all__ = ["Split", "Table", "Text"]


@dataclass(frozen=True)
class Table:
    """Rows of features and a target, unscaled unless the published set is scaled.

    ``X`` is float64 ``[n, d]``. ``y`` ``[n]`` is float64 for regression and binary (0 or 1), and holds int64 class
    numbers for multiclass.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64] | NDArray[np.int64]
    feature_names: tuple[str, ...]
    target_name: str


@dataclass(frozen=True)
class Text:
    """A text as bytes, including line ends and byte-order mark, as the published character counts include them."""

    content: bytes
