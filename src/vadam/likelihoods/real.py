"""Likelihoods of real numbers: Gaussian noise or Student's t, of one size or depending on the input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from vadam.likelihoods.operands import (
    check_positive,
    like_output,
    noise_like,
    per_example,
    randn_like,
    refuse_gradient,
    wide,
    with_last_axis_of,
)
from vadam.special import student_t_cdf

LOG_NOISE_BOUND = 8.0
"""Log deviations of a stack in training are within ± this, so that an outlier cannot overflow."""


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The regression likelihood log N(y | f, 1/noise_precision).

    ``noise_precision`` is a number or a tensor that broadcasts to the outputs.

    >>> Gaussian(noise_precision=4.0).nll(torch.zeros(3), torch.ones(3))  # ½ (log 2π − log 4 + 4)
    tensor(2.2258)
    """

    noise_precision: float | Tensor
    discrete: ClassVar = False

    def __post_init__(self) -> None:
        check_positive("noise_precision", self.noise_precision, "1/variance of the noise is positive")

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        output = wide(output)
        return per_example(self.log_density(output, like_output(y, output), noise_like(self.noise_precision, output)))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output

    def std(self, output: Tensor) -> Tensor:
        return noise_like(self.noise_precision, output).rsqrt().expand_as(output)

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        return torch.special.ndtr((with_last_axis_of(output, y) - output) / self.std(output))

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return output + self.std(output) * randn_like(output, generator)

    @staticmethod
    def log_density(output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return log N(y | f, 1/τ) of every output."""
        tau = noise_precision
        return 0.5 * (tau.log() - math.log(2 * math.pi) - tau * (y - output) ** 2)

    @staticmethod
    def residual(output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return τ (f − y)."""
        return noise_precision * (output - y)


@dataclass(frozen=True)
class InputNoiseGaussian:
    """The regression likelihood with noise that depends on the input: log N(y | f₁, e^(2 f₂)).

    The last axis of the outputs holds the means of all targets, then the logarithms of their standard deviations, so
    that a network for one target has two outputs.

    >>> InputNoiseGaussian().nll(torch.zeros(3, 2), torch.ones(3))  # ½ (log 2π + 1)
    tensor(1.4189)
    """

    discrete: ClassVar = False

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        mean, log_std = self._split(wide(output))
        z = (like_output(y, mean) - mean) * torch.exp(-log_std)
        return per_example(-0.5 * (math.log(2 * math.pi) + z**2) - log_std)

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return self._split(output)[0]

    def std(self, output: Tensor) -> Tensor:
        return self._split(output)[1].exp()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        mean = self.mean(output)
        return torch.special.ndtr((with_last_axis_of(mean, y) - mean) / self.std(output))

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        mean = self.mean(output)
        return mean + self.std(output) * randn_like(mean, generator)

    @staticmethod
    def log_density(output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return log N(y | f₁, e^(2 f₂)/τ) of every target; a stack keeps f₂ within ``LOG_NOISE_BOUND``."""
        mean, log_std = _halves(output)
        log_std = log_std.clamp(-LOG_NOISE_BOUND, LOG_NOISE_BOUND) - 0.5 * noise_precision.log()
        return -0.5 * (math.log(2 * math.pi) + ((y - mean) * torch.exp(-log_std)) ** 2) - log_std

    @staticmethod
    def residual(output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return τ e^(−2 f₂) (f₁ − y), then 1 − τ e^(−2 f₂) (f₁ − y)², or 0 where f₂ is out of bounds."""
        mean, log_std = _halves(output)
        inside = log_std.abs() <= LOG_NOISE_BOUND
        tau = noise_precision * torch.exp(-2 * log_std.clamp(-LOG_NOISE_BOUND, LOG_NOISE_BOUND))
        error = mean - y
        return torch.cat([tau * error, inside * (1 - tau * error**2)], dim=-1)

    @staticmethod
    def _split(output: Tensor) -> tuple[Tensor, Tensor]:
        targets, odd = divmod(output.shape[-1], 2) if output.dim() > 1 else (0, 1)
        if odd:
            raise ValueError(
                f"outputs of shape {list(output.shape)} are not means and log deviations: give the network two "
                "outputs for each target"
            )
        return output[..., :targets], output[..., targets:]


@dataclass(frozen=True, eq=False)
class StudentT:
    """The regression likelihood with heavy tails: y = f + t/√noise_precision, t from Student's t with ``dof`` > 2."""

    noise_precision: float | Tensor
    dof: float = 4.0
    discrete: ClassVar = False

    def __post_init__(self) -> None:
        check_positive("noise_precision", self.noise_precision, "1/scale² of the noise is positive")
        _check_dof(self.dof)

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        output = wide(output)
        tau, nu = noise_like(self.noise_precision, output), self.dof
        z_squared = tau * (like_output(y, output) - output) ** 2
        return per_example(_log_t(z_squared, nu) + 0.5 * tau.log())

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output

    def std(self, output: Tensor) -> Tensor:
        return (math.sqrt(self.dof / (self.dof - 2)) * noise_like(self.noise_precision, output).rsqrt()).expand_as(
            output
        )

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        error = with_last_axis_of(output, y) - output
        return student_t_cdf(error * noise_like(self.noise_precision, output).sqrt(), self.dof)

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return output + noise_like(self.noise_precision, output).rsqrt() * _draw_t(output, self.dof, generator)

    @classmethod
    def log_density(cls, output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return the log density of every target, with the default ``dof``."""
        tau, nu = noise_precision, cls.dof
        return _log_t(tau * (y - output) ** 2, nu) + 0.5 * tau.log()

    @classmethod
    def residual(cls, output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return (ν + 1) τ (f − y)/(ν + τ (f − y)²), with the default ``dof``."""
        error = output - y
        return (cls.dof + 1) * noise_precision * error / (cls.dof + noise_precision * error**2)


@dataclass(frozen=True)
class InputNoiseStudentT:
    """Regression with heavy tails and noise that depends on the input: y = f₁ + e^f₂ noise, the noise from Student's t.

    The outputs are those of :class:`InputNoiseGaussian`; e^f₂ is the scale of the noise.
    """

    dof: float = 4.0
    discrete: ClassVar = False

    def __post_init__(self) -> None:
        _check_dof(self.dof)

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        mean, log_scale = InputNoiseGaussian._split(wide(output))
        z_squared = ((like_output(y, mean) - mean) * (-log_scale).exp()) ** 2
        return per_example(_log_t(z_squared, self.dof) - log_scale)

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return InputNoiseGaussian._split(output)[0]

    def std(self, output: Tensor) -> Tensor:
        return math.sqrt(self.dof / (self.dof - 2)) * InputNoiseGaussian._split(output)[1].exp()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        mean, log_scale = InputNoiseGaussian._split(output)
        return student_t_cdf((with_last_axis_of(mean, y) - mean) * (-log_scale).exp(), self.dof)

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        mean, log_scale = InputNoiseGaussian._split(output)
        return mean + log_scale.exp() * _draw_t(mean, self.dof, generator)


def _halves(output: Tensor) -> tuple[Tensor, Tensor]:
    targets = output.shape[-1] // 2
    return output[..., :targets], output[..., targets:]


def _log_t(z_squared: Tensor, dof: float) -> Tensor:
    """Return the log density of Student's t at z, given z²."""
    constant = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    return constant - (dof + 1) / 2 * torch.log1p(z_squared / dof)


def _draw_t(output: Tensor, dof: float, generator: torch.Generator | None) -> Tensor:
    """Draw from Student's t in the shape of the outputs."""
    half = torch.full_like(output, dof / 2)
    return (torch._standard_gamma(half, generator) / half).rsqrt() * randn_like(output, generator)


def _check_dof(dof: float) -> None:
    refuse_gradient("dof", dof)
    if not 2 < dof < math.inf:
        raise ValueError(f"dof={dof!r} is not valid: give a number above 2, so that the noise has a variance")
