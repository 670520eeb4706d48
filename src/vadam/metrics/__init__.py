"""Metrics of predictions: pure functions of tensors or arrays, each a mean over the examples unless it says otherwise.

Errors and losses (``rmse``, ``nll``, ``brier``, ``ece``, ``crps``, ``interval_score``, ``calibration_error``, ``aurc``) go
down; ``log_likelihood``, ``accuracy``, ``auroc``, ``coverage_at_risk`` and ``selective_accuracy`` go up; ``coverage``
should be the level of its interval. Logarithms are natural.

Probabilities of classes are [n, C] with labels 0 … C − 1, or P(y = 1) [n] for two classes.
"""

from vadam.metrics.classes import accuracy, adaptive_ece, auroc, brier, ece, reliability_curve
from vadam.metrics.likelihood import joint_log_likelihood, log_likelihood, nll
from vadam.metrics.real import calibration_curve, calibration_error, coverage, crps, interval_score, rmse
from vadam.metrics.selective import aurc, coverage_at_risk, risk_coverage_curve, selective_accuracy

__all__ = [
    "accuracy",
    "adaptive_ece",
    "aurc",
    "auroc",
    "brier",
    "calibration_curve",
    "calibration_error",
    "coverage",
    "coverage_at_risk",
    "crps",
    "ece",
    "interval_score",
    "joint_log_likelihood",
    "log_likelihood",
    "nll",
    "reliability_curve",
    "risk_coverage_curve",
    "rmse",
    "selective_accuracy",
]
