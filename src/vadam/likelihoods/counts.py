"""Likelihoods of counts: the output is the logarithm of the rate.

Their terms grow with counts and ``total_count`` and cancel, so they are computed in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from vadam.likelihoods.operands import (
    check_positive,
    check_range,
    like_output,
    per_example,
    refuse_gradient,
    wide,
    with_last_axis_of,
)
from vadam.special import betainc

LARGE = 1e6
"""Total count from which log Γ would cancel, and Stirling's series is exact to rounding."""
NEARLY_POISSON = 1e9
"""Total count from which the incomplete beta function would cancel, and the first term in 1/total_count is exact to rounding."""
LARGEST_RATE = 1e18
"""Rate up to which counts fit into 64 bits, by which ``torch.poisson`` draws them."""
COUNTS = "counts are at least 0; of numbers below 0 use Gaussian"


@dataclass(frozen=True)
class Poisson:
    """The likelihood of counts log p(y) = y f − e^f − log y!; the output f is the logarithm of the rate."""

    discrete: ClassVar = True

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        y = like_output(y, output).double()
        check_range(y, 0, math.inf, COUNTS)
        return per_example(self.log_density(output.double(), y)).to(wide(output).dtype)

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output.exp()

    def std(self, output: Tensor) -> Tensor:
        return (output / 2).exp()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        y = with_last_axis_of(output, y)
        k, rate = torch.broadcast_tensors(y.to(output.dtype).floor(), output.exp())
        return torch.where(k < 0, 0.0, torch.special.gammaincc(k.clamp_min(0) + 1, rate))

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return _draw_poisson(output.exp(), generator)

    @staticmethod
    def log_density(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return y f − e^f − log y! of every target; there is no noise precision."""
        return y * output - output.exp() - torch.lgamma(y + 1)

    @staticmethod
    def residual(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return e^f − y."""
        return output.exp() - y


@dataclass(frozen=True)
class NegativeBinomial:
    """The likelihood of overdispersed counts: mean μ = e^f, variance μ + μ²/total_count."""

    total_count: float
    discrete: ClassVar = True

    def __post_init__(self) -> None:
        refuse_gradient("total_count", self.total_count)
        check_positive("total_count", self.total_count, "a positive number; the larger, the nearer to Poisson")

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        y, r = like_output(y, output).double(), self.total_count
        check_range(y, 0, math.inf, COUNTS)
        logit = output.double() - math.log(r)  # of μ/(r + μ)
        coefficient = _log_rising(y, r) - torch.lgamma(y + 1)
        return per_example(coefficient + y * F.logsigmoid(logit) + r * F.logsigmoid(-logit)).to(wide(output).dtype)

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output.exp()

    def std(self, output: Tensor) -> Tensor:
        mean = output.exp()
        return (mean + mean**2 / self.total_count).sqrt()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        p = torch.sigmoid(math.log(self.total_count) - output.double())
        k, p = torch.broadcast_tensors(with_last_axis_of(output, y).double().floor(), p)
        if self.total_count < NEARLY_POISSON:
            below = betainc(torch.full_like(p, self.total_count), k.clamp_min(0) + 1, p)
        else:
            below = _nearly_poisson_cdf(k.clamp_min(0), output.double().exp().expand_as(k), self.total_count)
        return torch.where(k < 0, 0.0, below).to(output.dtype)

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r = torch.full_like(output, self.total_count)
        return _draw_poisson(output.exp() * torch._standard_gamma(r, generator) / r, generator)


def _draw_poisson(rate: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw counts; a rate beyond torch's whole numbers stands for them, from which they differ by less than rounding."""
    return torch.where(rate < LARGEST_RATE, torch.poisson(rate.clamp(max=LARGEST_RATE), generator), rate)


def _nearly_poisson_cdf(k: Tensor, mean: Tensor, r: float) -> Tensor:
    """Return P(Y ≤ k) to first order in 1/r: the Poisson's F(k; μ) + μ²/2r ∂²F/∂μ²."""
    mass = torch.exp(torch.xlogy(k, mean) - mean - torch.lgamma(k + 1))
    bend = mass * mean * (mean - k) / (2 * r)
    return torch.special.gammaincc(k + 1, mean) + bend


def _log_rising(y: Tensor, r: float) -> Tensor:
    """Return log Γ(y + r) − log Γ(r)."""
    if r < LARGE:
        return torch.lgamma(y + r) - math.lgamma(r)
    return y * math.log(r) + (r + y - 0.5) * torch.log1p(y / r) - y + (1 / (r + y) - 1 / r) / 12
