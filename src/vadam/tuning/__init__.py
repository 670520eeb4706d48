"""Search for the hyper-parameters of many small networks by Bayesian optimisation.

    found = tune({"boston": folds}, {"prior_precision": (0.02, 50.0)}, MLP(13, 50, 1), Method("vadam", lr=0.01), trials=30)
    found["boston"].point

``noise_precision`` fits the noise of a predictive density to rows that were left out.
"""

from vadam.tuning.journal import JournalError, Trial
from vadam.tuning.noise import noise_precision
from vadam.tuning.search import Tuned, tune
from vadam.tuning.suggest import Point, Space

__all__ = ["JournalError", "Point", "Space", "Trial", "Tuned", "noise_precision", "tune"]
