"""The noise of predictions, fitted to rows that their networks have not seen.

    y = f(x; θ) + c σ(x; θ) ε,   ε ~ N(0, 1) or Student's t with ν degrees of freedom
    c, ν = argmax Σ log 1/S Σₛ p(y | x, θₛ)

Samples that differ spread the density by themselves, so a mixture of posteriors needs less noise than the training assumed; and
errors on new rows have heavier tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from vadam.likelihoods import InputNoiseGaussian, InputNoiseStudentT, NumberLikelihood
from vadam.prediction import Regression

DEGREES_OF_FREEDOM = (3.0, 4.0, 6.0, 10.0, 30.0, math.inf)
ROWS_AT_MOST, SAMPLES_AT_MOST = 1_000, 100


@dataclass(frozen=True)
class PredictiveNoise:
    """A factor on the noise of the training, and its degrees of freedom; infinity is Gaussian."""

    scale: float = 1.0
    dof: float = math.inf

    @property
    def likelihood(self) -> NumberLikelihood:
        """Return the likelihood of a target given mean and log scale."""
        return InputNoiseGaussian() if math.isinf(self.dof) else InputNoiseStudentT(self.dof)

    def prediction(self, samples: Tensor) -> Regression:
        """Return the prediction from means and log scales [S, n, 2 T] of the training's noise."""
        mean, log_scale = samples.chunk(2, dim=-1)
        return Regression(torch.cat([mean, log_scale + math.log(self.scale)], dim=-1), self.likelihood)


@dataclass(frozen=True)
class FittedNoise:
    """The noise that makes the targets of held-out rows most likely, and their mean log-likelihood with it."""

    noise: PredictiveNoise
    log_likelihood: float


def fit_noise(
    held_out: Sequence[tuple[Tensor, Tensor]],
    *,
    weights: Sequence[Tensor] | None = None,
    scale: float | None = None,
    dof: float | None = None,
) -> FittedNoise:
    """Fit to pairs of outputs [S, n, 2 T], means and log scales, and targets [n, T]; a given ``scale`` or ``dof`` is kept.

    The rows of each pair count as often as its ``weights`` [n] say.
    """
    shares = [torch.ones(len(y)) for _, y in held_out] if weights is None else weights
    triples = [(*pair, share.float()) for pair, share in zip(held_out, shares, strict=True)]
    errors = [(*_errors(samples, y), weight) for samples, y, weight in _thinned(triples)]
    best = FittedNoise(PredictiveNoise(), -math.inf)
    for nu in DEGREES_OF_FREEDOM if dof is None else (dof,):
        value_at = partial(_log_likelihood, errors, nu)
        if scale is None:
            log_scale, value = _maximum(value_at)
            found = math.exp(log_scale)
        else:
            found, value = scale, value_at(math.log(scale))
        if value > best.log_likelihood:
            best = FittedNoise(PredictiveNoise(found, nu), value)
    return best


def _errors(samples: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return squared errors in units of the training's noise, and its log scales."""
    mean, log_scale = samples.chunk(2, dim=-1)
    return (((y - mean) * torch.exp(-log_scale)) ** 2).float(), log_scale.float()


def _log_likelihood(errors: Sequence[tuple[Tensor, Tensor, Tensor]], dof: float, log_scale: float) -> float:
    """Return the mean log-likelihood with the noise scaled; it is that of ``PredictiveNoise.prediction``."""
    total, rows = 0.0, 0.0
    for squares, own, weight in errors:
        z_squared = squares * math.exp(-2 * log_scale)
        if math.isinf(dof):
            log_p = -0.5 * (math.log(2 * math.pi) + z_squared)
        else:
            constant = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
            log_p = constant - (dof + 1) / 2 * torch.log1p(z_squared / dof)
        each = (log_p - own - log_scale).sum(-1).logsumexp(0) - math.log(len(squares))
        total, rows = total + (each * weight).sum().item(), rows + weight.sum().item()
    return total / rows if math.isfinite(total) else -math.inf


def _maximum(value: Callable[[float], float]) -> tuple[float, float]:
    """Return where a function of the log scale is largest, and its value there: a coarse grid, then finer ones."""
    tried = {point: value(point) for point in (-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)}
    for step in (0.5, 0.25, 0.125, 0.0625, 0.03125):
        best = max(tried, key=lambda point: tried[point])
        for point in (best - step, best + step):
            tried[point] = value(point)
    best = max(tried, key=lambda point: tried[point])
    return best, tried[best]


def _thinned(held_out: Sequence[tuple[Tensor, Tensor, Tensor]]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return a subset of the rows and samples that is large enough to fit two numbers."""
    every = max(1, sum(len(y) for _, y, _ in held_out) // ROWS_AT_MOST)
    thinned = []
    for samples, y, weight in held_out:
        thinned.append((samples[:: max(1, len(samples) // SAMPLES_AT_MOST), ::every], y[::every], weight[::every]))
    return thinned
