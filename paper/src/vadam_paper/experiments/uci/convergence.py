"""Compare the convergence of the final runs: the test RMSE after every epoch, and which method arrives first."""

import numpy as np

from vadam_paper.experiments.intervals import Interval, interval
from vadam_paper.experiments.results import Recorded

WITHIN = 1.05
"""A run has arrived when its RMSE is at most this factor times the target."""


def curves(run: Recorded, method: str, name: str) -> np.ndarray | None:
    """Return the test RMSE, [splits, epochs]; Vprop runs at Vadam's hyper-parameters, as in the authors' figure."""
    cell = f"{'vadam' if method == 'vprop' else method}-{name}"
    if cell not in run:
        return None
    result = run[cell]["vprop"] if method == "vprop" else run[cell]
    return np.asarray(result["curve"]["rmse"], dtype=float)


def epochs_saved(run: Recorded, fast: str, slow: str, name: str) -> Interval:
    """Return how many more epochs ``slow`` needs than ``fast`` to reach their target and stay there.

    The target is near the worse of their two final RMSEs. Epochs are compared split by split.
    """
    first, second = curves(run, fast, name), curves(run, slow, name)
    assert first is not None
    assert second is not None
    target = WITHIN * np.fmax(first[:, -1], second[:, -1])  # if one diverges, the end of the other
    return interval(list(_arrival(second, target) - _arrival(first, target)))


def _arrival(rmse: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the epoch, from 1, from which the target is always met.

    If it is not met at the end, return the number of epochs plus one.
    """
    missed = ~(rmse <= target[:, None])
    return np.where(missed.any(1), 1.0 + rmse.shape[1] - missed[:, ::-1].argmax(1), 1.0)
