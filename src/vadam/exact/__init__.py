"""Exact references against which approximations are measured.

``logistic``: the best mean-field and full-covariance Gaussians of Bayesian logistic regression (MF-Exact).
``linear``: Bayesian linear regression in closed form. ``grid``: posteriors in two dimensions.
"""

from vadam.exact import expectations, grid, linear, logistic

__all__ = ["expectations", "grid", "linear", "logistic"]
