"""The curves of the final runs: the test RMSE after every epoch, and who gets there first."""

import numpy as np

from vadam_paper.experiments.intervals import Interval, interval
from vadam_paper.experiments.results import Recorded

WITHIN = 1.05
"""A run has arrived when its RMSE is within 5 % of the target."""


def curves(run: Recorded, method: str, name: str) -> np.ndarray | None:
    """Test RMSE, [splits, epochs]. Vprop's are those at Vadam's hyper-parameters, as in the authors' figure."""
    cell = f"{'vadam' if method == 'vprop' else method}-{name}"
    if cell not in run:
        return None
    result = run[cell]["vprop"] if method == "vprop" else run[cell]
    return np.asarray(result["curve"]["rmse"], dtype=float)


def epochs_saved(run: Recorded, fast: str, slow: str, name: str) -> Interval:
    """Epochs that ``slow`` needs more than ``fast``, split by split, to come near the worse of their two ends and stay there."""
    first, second = curves(run, fast, name), curves(run, slow, name)
    assert first is not None
    assert second is not None
    target = WITHIN * np.fmax(first[:, -1], second[:, -1])  # of one that diverges, the other's end
    return interval(list(_arrival(second, target) - _arrival(first, target)))


def _arrival(rmse: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The epoch, from 1, after which the target is always met; one more than there are where it is not met at the end."""
    missed = ~(rmse <= target[:, None])
    return np.where(missed.any(1), 1.0 + rmse.shape[1] - missed[:, ::-1].argmax(1), 1.0)
