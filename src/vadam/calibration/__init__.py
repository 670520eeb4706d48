"""Correct predictions on held-out rows: scaled probabilities and spreads, conformal intervals and sets.

    scaling = SpreadScaling.fit(pred, y)          # of held-out rows
    low, high = scaling(new_pred).interval(0.9)   # still a prediction, with density and quantiles

    conformal = ConformalIntervals.fit(pred, y)
    low, high = conformal.interval(new_pred, 0.9) # holds 90 % of exchangeable targets, whatever the model is worth

``vadam.metrics`` judges the result.
"""

from vadam.calibration.intervals import ConformalIntervals, CrossConformalIntervals
from vadam.calibration.scaling import SpreadScaling, TemperatureScaling
from vadam.calibration.sets import ConformalSets, CrossConformalSets

__all__ = [
    "ConformalIntervals",
    "ConformalSets",
    "CrossConformalIntervals",
    "CrossConformalSets",
    "SpreadScaling",
    "TemperatureScaling",
]
