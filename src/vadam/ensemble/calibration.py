"""The noise of a predictive density, fitted to rows that its posteriors have not seen.

    p(y | x) = 1/S Σₛ N(y | f(x; θₛ), 1/τ)
    τ = argmax Σ log p(y | x)

Samples that differ spread the density by themselves: a mixture of posteriors needs less noise than one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from vadam import metrics
from vadam.ensemble.losses import LOSSES

BELOW, ABOVE = 1.0, 10.0
"""log τ is looked for from so much below to so much above that of a prediction which is its mean: samples take the place of noise."""
SMALLEST = 1e-30
"""Of a mean squared error, for predictions without any."""


def noise_precision(predictions: Sequence[tuple[Tensor, Tensor]]) -> float:
    """τ that makes the targets [n, 1] most likely under the outputs [S, n, 1] of each pair."""
    try:
        from scipy.optimize import minimize_scalar
    except ImportError as error:
        raise ImportError('fitting the noise needs scipy: pip install "vadam[tune]"') from error

    def loss(log_tau: float) -> float:
        tau = torch.tensor(log_tau, dtype=torch.float64).exp()
        return -sum(metrics.log_likelihood(log_prob(f, y, tau)).item() * len(y) for f, y in predictions)

    errors = torch.cat([f.mean(0) - y for f, y in predictions])
    middle = -math.log(max(float((errors**2).mean()), SMALLEST))
    bounds = (middle - BELOW, middle + ABOVE)
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.01}).x)


def log_prob(f: Tensor, y: Tensor, tau: Tensor) -> Tensor:
    """log N(y | f, 1/τ), [S, n]."""
    found: Tensor = LOSSES["gaussian"].log_prob(f, y, tau)
    return found
