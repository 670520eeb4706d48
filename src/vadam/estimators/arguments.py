"""Check the arguments of an estimator when it is fitted."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vadam.estimators.base import VadamEstimator


def check_arguments(estimator: VadamEstimator) -> None:
    """Raise ValueError for a wrong argument. When fitting, not before: scikit-learn sets arguments one by one."""
    optional = [name for name in ("batch_size", "epochs") if getattr(estimator, name) is not None]
    for name in ("members", "samples", "predict_samples", *optional, *(("budget",) if estimator.tune else ())):
        value = getattr(estimator, name)
        if not _is_count(value):
            raise ValueError(f"{name}={value!r} is not valid: give a whole number from 1")
    optional = [
        name for name in ("lr", "noise_scale", "logit_temperature") if getattr(estimator, name, None) is not None
    ]
    numbers = [name for name in ("prior_precision", "noise_precision", "temperature") if hasattr(estimator, name)]
    for name in (*numbers, *optional):
        value = getattr(estimator, name)
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
            raise ValueError(f"{name}={value!r} is not valid: give a positive number")
    hidden = estimator.hidden  # an iterator would be used up by the first fit
    if hidden is None:
        return
    if isinstance(hidden, str) or not isinstance(hidden, Collection) or not all(map(_is_count, hidden)):
        raise ValueError(
            f"hidden={hidden!r} is not valid: give the sizes of the hidden layers, e.g. (50,) for one layer of 50"
        )


def check_folds(estimator: VadamEstimator, rows: int) -> None:
    """Raise ValueError if the rows cannot be cut into the folds of the search."""
    if estimator.tune and (not isinstance(estimator.folds, Integral) or not 2 <= estimator.folds <= rows):
        raise ValueError(
            f"folds={estimator.folds!r} is not valid for n_samples={rows}: cross-validation needs from 2 folds to one a row; "
            "give fewer folds, or tune=False"
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
