"""Scale the confidence of a model by one number that is fitted to held-out rows.

    TemperatureScaling    p(y | x) = 1/S Σₛ softmax(f(x; θₛ)/T)                        classes (Guo et al. 2017, for S = 1)
    SpreadScaling         y ↦ m(x) + c (y − m(x)), m(x) the predictive mean            numbers

Both are fitted by the likelihood of the targets. The result of a scaling is a prediction of the same kind, epistemic and
aleatoric parts included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vadam.likelihoods import Gaussian, InputNoiseGaussian, InputNoiseStudentT, StudentT, weights_of
from vadam.prediction import Classes, Regression

WIDEST = math.log(1000.0)
"""Bound of the logarithm of a scale: the search runs from 1/1000 to 1000."""


@dataclass(frozen=True)
class TemperatureScaling:
    """Divide the logits of every draw by ``temperature``: above 1 probabilities move towards equal ones.

    >>> from vadam.likelihoods import Bernoulli
    >>> from vadam.prediction import Binary
    >>> sure = Binary(torch.full((1, 4), 9.0), Bernoulli())
    >>> scaling = TemperatureScaling.fit(sure, torch.tensor([1, 1, 1, 0]))  # right three times of four
    >>> round(scaling(sure).probs[0].item(), 3)
    0.75
    """

    temperature: float

    def __post_init__(self) -> None:
        _check_scale("temperature", self.temperature)

    @classmethod
    def fit(
        cls, prediction: Classes, y: Tensor, weight: Tensor | None = None, *, prior_std: float = math.inf
    ) -> TemperatureScaling:
        """Return the scaling that makes the labels ``y`` of held-out rows most likely; they count as ``weight`` says.

        ``prior_std`` is the standard deviation of log temperature in a Gaussian prior about 0. Without a prior the temperature is
        near 0 if no row is predicted wrongly.
        """
        if not isinstance(prediction, Classes):
            raise TypeError(
                f"a temperature scales the logits of classes, got a {type(prediction).__name__}: use SpreadScaling for numbers"
            )

        if weight is not None:
            weight = weights_of(prediction.samples.new_empty(prediction.samples.shape[1]), weight)

        def loss(log_temperature: float) -> float:
            log_prob = cls(math.exp(log_temperature))(prediction).log_prob(y)
            mean = log_prob.mean() if weight is None else (log_prob * weight).sum() / weight.sum()
            rows = max(1.0, len(log_prob) if weight is None else weight.sum().item())
            return 0.5 * (log_temperature / prior_std) ** 2 / rows - mean.item()

        return cls(math.exp(_minimum(loss, -WIDEST, WIDEST)))

    def __call__(self, prediction: Classes) -> Classes:
        return replace(prediction, samples=prediction.samples / self.temperature)


@dataclass(frozen=True)
class SpreadScaling:
    """Stretch every predictive distribution about its mean by ``factor``: above 1 intervals become wider.

    >>> sure = Regression(torch.zeros(1, 4), Gaussian(noise_precision=100.0))
    >>> scaling = SpreadScaling.fit(sure, torch.tensor([2.0, -2.0, 2.0, -2.0]))
    >>> round(scaling(sure).std[0].item(), 3)
    2.0
    """

    factor: float

    def __post_init__(self) -> None:
        _check_scale("factor", self.factor)

    @classmethod
    def fit(cls, prediction: Regression, y: Tensor) -> SpreadScaling:
        """Return the scaling that makes the targets ``y`` of held-out rows most likely."""

        def loss(log_factor: float) -> float:
            return -cls(math.exp(log_factor))(prediction).log_prob(y).mean().item()

        return cls(math.exp(_minimum(loss, -WIDEST, WIDEST)))

    def __call__(self, prediction: Regression) -> Regression:
        if type(prediction) is not Regression:
            raise TypeError(
                "this prediction is of a transformed target, which a factor would not stretch about its mean: its estimator has "
                "calibrated it, and predict_interval does so for every level"
            )
        likelihood, c = prediction.likelihood, self.factor
        if isinstance(likelihood, InputNoiseGaussian | InputNoiseStudentT):
            mean, log_std = prediction.samples.chunk(2, dim=-1)
            stretched = torch.cat([_stretched(mean, c), log_std + math.log(c)], dim=-1)
            return replace(prediction, samples=stretched)
        if not isinstance(likelihood, Gaussian | StudentT):
            raise TypeError(
                f"the spread of {type(likelihood).__name__} cannot be scaled: a factor stretches the noise of "
                "Gaussian, InputNoiseGaussian and StudentT"
            )
        narrower: Any = replace(likelihood, noise_precision=likelihood.noise_precision / c**2)
        return replace(prediction, samples=_stretched(prediction.samples, c), likelihood=narrower)


def _stretched(samples: Tensor, factor: float) -> Tensor:
    mean = samples.mean(0)
    return mean + factor * (samples - mean)


def _minimum(loss: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of the loss: the best point of a grid, refined by a golden-section search."""
    steps = 40
    grid = [low + (high - low) * k / steps for k in range(steps + 1)]
    losses = [loss(point) for point in grid]
    if not any(map(math.isfinite, losses)):
        raise ValueError(
            "no scale gives the targets a finite likelihood: there are no rows, or predictions or targets are not finite"
        )
    best = min(range(len(grid)), key=lambda k: losses[k] if math.isfinite(losses[k]) else math.inf)
    low, high = grid[max(0, best - 1)], grid[min(steps, best + 1)]
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 1e-6:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return (low + high) / 2


def _check_scale(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value!r} is not valid: give a positive number")
