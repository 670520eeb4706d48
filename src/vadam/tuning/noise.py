"""Fit the noise of a predictive density to rows that its posteriors have not seen.

    p(y | x) = 1/S Σₛ N(y | f(x; θₛ), 1/τ)
    τ = argmax Σ log p(y | x)

Samples that differ already spread the density, so a mixture of posteriors needs less noise than one posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from vadam import metrics
from vadam.likelihoods import Gaussian, like_output

BELOW, ABOVE = 1.0, 10.0
"""Search interval of log τ around that of the mean prediction. The mean squared error of the samples is an upper bound of the noise."""
SMALLEST = 1e-30
"""Lower bound of the mean squared error, for predictions without error."""


def noise_precision(predictions: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Return the τ that maximises the likelihood of the targets [n, 1] or [n] under the outputs [S, n, 1] of each pair."""
    try:
        from scipy.optimize import minimize_scalar
    except ImportError as error:
        raise ImportError('fitting the noise needs scipy: pip install "vadam[tune]"') from error

    outputs = [f.unsqueeze(-1) if f.dim() == 2 else f for f, _ in predictions]
    pairs = [(f, like_output(y, f[0])) for f, (_, y) in zip(outputs, predictions, strict=True)]

    def loss(log_tau: float) -> float:
        tau = torch.tensor(log_tau, dtype=torch.float64).exp()
        return -sum(metrics.log_likelihood(log_prob(f, y, tau)).item() * len(y) for f, y in pairs)

    errors = torch.cat([(f.mean(0) - y).flatten() for f, y in pairs])
    middle = -math.log(max(float((errors**2).mean()), SMALLEST))
    noisiest = -math.log(max(float(torch.cat([(f - y).flatten() for f, y in pairs]).square().mean()), SMALLEST))
    bounds = (min(middle - BELOW, noisiest), middle + ABOVE)
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.01}).x)


def log_prob(f: Tensor, y: Tensor, tau: Tensor) -> Tensor:
    """Return log N(y | f, 1/τ) for outputs [S, n, 1], [S, n]."""
    return Gaussian.log_density(f, y, tau).sum(-1)
