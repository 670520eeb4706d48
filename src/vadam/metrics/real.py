"""Metrics of real targets: the error of the mean, the quality of a predictive distribution, and of its intervals."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vadam.likelihoods import as_numbers, like_output


def rmse(prediction: Tensor, y: Tensor) -> Tensor:
    """Return √ mean (prediction − y)².

    >>> rmse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(1.4142)
    """
    prediction = as_numbers(prediction)
    return (prediction - like_output(as_numbers(y, prediction), prediction)).square().mean().sqrt()


def crps(samples: Tensor, y: Tensor, std: Tensor | float | None = None) -> Tensor:
    """Return the continuous ranked probability score E|X − y| − ½ E|X − X'|, in the unit of the targets.

    With ``std``, X follows the mixture of S Gaussians with the means ``samples`` [S, n] and standard deviations ``std``
    (anything that broadcasts to the samples), and the score is the closed form of Grimit et al. (2006). Without ``std``,
    X is one of the draws ``samples``.

    >>> crps(torch.tensor([[0.0]]), torch.tensor([0.0]), std=1.0)  # (√2 − 1)/√π
    tensor(0.2337)
    >>> crps(torch.tensor([[0.0], [2.0]]), torch.tensor([0.0]))
    tensor(0.5000)
    """
    samples = as_numbers(samples)
    y = like_output(as_numbers(y, samples), samples[0])
    if std is None:
        error = samples - y
        return (error.abs().mean(0) - 0.5 * _mean_difference_of_draws(error)).mean()  # far from 0 sums of samples round
    sigma = torch.as_tensor(std, dtype=samples.dtype, device=samples.device)
    if bool((sigma < 0).any()):
        raise ValueError(f"std holds {sigma.min().item():g}: give standard deviations from 0")
    to_target = _mean_absolute(samples - y, sigma).mean(0)
    return (to_target - 0.5 * _mean_difference_of_gaussians(samples, sigma.expand_as(samples))).mean()


def interval_score(lower: Tensor, upper: Tensor, y: Tensor, level: float = 0.9) -> Tensor:
    """Return the mean of the interval's width plus 2/(1 − level) times the distance of a target outside it.

    The true central interval has the least expected score (Gneiting and Raftery 2007).

    >>> interval_score(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0]), torch.tensor([0.5, 1.5]), level=0.9)
    tensor(6.)
    """
    _check_probability("level", level)
    lower, upper, y = _of_one_shape(lower, upper, y)
    outside = (lower - y).clamp_min(0) + (y - upper).clamp_min(0)
    return (upper - lower + 2 / (1 - level) * outside).mean()


def coverage(lower: Tensor, upper: Tensor, y: Tensor) -> Tensor:
    """Return the fraction of targets inside their interval, ends included; NaN if one of the numbers is."""
    lower, upper, y = _of_one_shape(lower, upper, y)
    inside = ((lower <= y) & (y <= upper)).to(lower.dtype)
    return inside.masked_fill(lower.isnan() | upper.isnan() | y.isnan(), math.nan).mean()


def calibration_curve(pit: Tensor, levels: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return probabilities and the fraction of targets below each quantile; for a calibrated prediction they are equal.

    ``pit`` are the probability integral transforms F(y | x) of the targets, ``prediction.cdf(y)``; of counts, where F jumps, draws
    between F(y − 1 | x) and F(y | x). ``levels`` are 0.05, 0.10, … 0.95 by default.
    """
    pit = as_numbers(pit)
    if bool(pit.isnan().any()):
        raise ValueError("pit holds NaN, which is below no quantile: leave these targets out")
    default = torch.linspace(0.05, 0.95, 19, dtype=pit.dtype, device=pit.device)
    levels = default if levels is None else as_numbers(levels, pit)
    return levels, (pit.flatten() <= levels[:, None]).to(pit.dtype).mean(1)


def calibration_error(pit: Tensor, levels: Tensor | None = None) -> Tensor:
    """Return the mean distance of the calibration curve from the diagonal."""
    levels, observed = calibration_curve(pit, levels)
    return (observed - levels).abs().mean()


def _of_one_shape(lower: Tensor, upper: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lower = as_numbers(lower)
    return lower, like_output(as_numbers(upper, lower), lower), like_output(as_numbers(y, lower), lower)


def _mean_absolute(mu: Tensor, sigma: Tensor) -> Tensor:
    """Return E|X| for X ~ N(μ, σ²); σ may be 0."""
    z = mu / (math.sqrt(2) * sigma.clamp_min(torch.finfo(mu.dtype).tiny))
    return mu * torch.erf(z) + math.sqrt(2 / math.pi) * sigma * torch.exp(-(z**2))


def _mean_difference_of_gaussians(mu: Tensor, sigma: Tensor) -> Tensor:
    """Return E|X − X'| for two independent draws from the mixture; each pair of components is visited once."""
    S, variance = len(mu), sigma**2
    total = _mean_absolute(torch.zeros_like(mu), (2 * variance).sqrt()).sum(0)
    for shift in range(1, S // 2 + 1):
        each = _mean_absolute(mu - mu.roll(shift, 0), (variance + variance.roll(shift, 0)).sqrt()).sum(0)
        total = total + (each if 2 * shift == S else 2 * each)  # half way round every pair appears twice
    return total / S**2


def _mean_difference_of_draws(samples: Tensor) -> Tensor:
    """Return E|X − X'| for two draws with replacement: 2/S² Σₖ (2k − S − 1) x₍ₖ₎ over the order statistics."""
    S = len(samples)
    weight = 2 * torch.arange(1, S + 1, dtype=samples.dtype, device=samples.device) - S - 1
    return 2 / S**2 * torch.tensordot(weight, samples.sort(0).values, 1)


def _check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, e.g. 0.9, got {value!r}")
