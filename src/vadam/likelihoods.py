"""Likelihoods: log p(y | f) of the targets y given the network's outputs f = model(x).

    Gaussian            y = f + noise, noise ~ N(0, 1/noise_precision)
    InputNoiseGaussian  y = f₁ + e^f₂ noise, noise ~ N(0, 1)         f is twice as wide as y: means, then log deviations
    StudentT            y = f + noise/√noise_precision, noise ~ t    heavier tails than the Gaussian
    InputNoiseStudentT  y = f₁ + e^f₂ noise, noise ~ t               both
    Poisson             y = 0, 1, 2, … with mean e^f                 f is the logarithm of the rate
    NegativeBinomial    y = 0, 1, 2, … with mean e^f                 and variance e^f + e^2f/total_count
    Bernoulli           P(y = 1) = 1/(1 + e⁻ᶠ)                       f are logits, y is 0 or 1
    Categorical         P(y = c) = e^f_c / Σₖ e^f_k                  f are logits on the last axis, y is the class

``nll(output, y)`` is the training loss, the minibatch mean. ``log_prob(output, y)`` returns one number per example. The
first axis counts the examples; log-probabilities are summed over all others, e.g. over several targets.

Likelihoods of numbers also have the ``mean``, ``std`` and ``cdf`` of a target given the outputs, and ``sample`` targets.
Likelihoods of classes have ``class_log_probs``.

``log_density`` and ``residual`` are the formulas behind them, for outputs of any shape and one-hot classes: a stack of networks
computes its gradients by them without autograd.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from vadam.special import betainc, student_t_cdf

LOG_NOISE_BOUND = 8.0
"""Log deviations of a stack in training are within ± this, so that an outlier cannot overflow."""


class Likelihood(Protocol):
    """The protocol of a likelihood."""

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor: ...

    def nll(self, output: Tensor, y: Tensor) -> Tensor: ...


class NumberLikelihood(Likelihood, Protocol):
    """The protocol of a likelihood of numbers. ``discrete`` is True if targets are integers."""

    discrete: ClassVar[bool]

    def mean(self, output: Tensor) -> Tensor:
        """Return E[y | f]."""

    def std(self, output: Tensor) -> Tensor:
        """Return the standard deviation of y given f: the noise."""

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        """Return P(Y ≤ y | f) for every target."""

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one y given f."""


class Formulas(Protocol):
    """The formulas of a likelihood, for outputs [..., O] and targets that broadcast against them; classes are one-hot."""

    @staticmethod
    def log_density(output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return terms [..., O] whose sum over the last axis is log p(y | f)."""

    @staticmethod
    def residual(output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return −∂ log p(y | f)/∂f, [..., O]."""


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
        _check_positive("noise_precision", self.noise_precision, "1/variance of the noise is positive")

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        return _per_example(self.log_density(output, like_output(y, output), _like(self.noise_precision, output)))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output

    def std(self, output: Tensor) -> Tensor:
        return _like(self.noise_precision, output).rsqrt().expand_as(output)

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        return torch.special.ndtr((y - output) / self.std(output))

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return output + self.std(output) * _randn_like(output, generator)

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
        mean, log_std = self._split(output)
        z = (like_output(y, mean) - mean) * torch.exp(-log_std)
        return _per_example(-0.5 * (math.log(2 * math.pi) + z**2) - log_std)

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return self._split(output)[0]

    def std(self, output: Tensor) -> Tensor:
        return self._split(output)[1].exp()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        return torch.special.ndtr((y - self.mean(output)) / self.std(output))

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        mean = self.mean(output)
        return mean + self.std(output) * _randn_like(mean, generator)

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
        _check_positive("noise_precision", self.noise_precision, "1/scale² of the noise is positive")
        _check_dof(self.dof)

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        tau, nu = _like(self.noise_precision, output), self.dof
        constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
        z_squared = tau * (like_output(y, output) - output) ** 2
        return _per_example(constant + 0.5 * tau.log() - (nu + 1) / 2 * torch.log1p(z_squared / nu))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output

    def std(self, output: Tensor) -> Tensor:
        return (math.sqrt(self.dof / (self.dof - 2)) * _like(self.noise_precision, output).rsqrt()).expand_as(output)

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        return student_t_cdf((y - output) * _like(self.noise_precision, output).sqrt(), self.dof)

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        half = torch.full_like(output, self.dof / 2)
        scale = (_like(self.noise_precision, output) * torch._standard_gamma(half, generator) / half).rsqrt()
        return output + scale * _randn_like(output, generator)

    @classmethod
    def log_density(cls, output: Tensor, y: Tensor, noise_precision: Tensor) -> Tensor:
        """Return the log density of every target, with the default ``dof``."""
        tau, nu = noise_precision, cls.dof
        constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
        return constant + 0.5 * tau.log() - (nu + 1) / 2 * torch.log1p(tau * (y - output) ** 2 / nu)

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
        mean, log_scale = InputNoiseGaussian._split(output)
        return StudentT((-2 * log_scale).exp(), self.dof).log_prob(mean, y)

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return InputNoiseGaussian._split(output)[0]

    def std(self, output: Tensor) -> Tensor:
        return math.sqrt(self.dof / (self.dof - 2)) * InputNoiseGaussian._split(output)[1].exp()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        mean, log_scale = InputNoiseGaussian._split(output)
        return student_t_cdf((y - mean) * (-log_scale).exp(), self.dof)

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        mean, log_scale = InputNoiseGaussian._split(output)
        return StudentT((-2 * log_scale).exp(), self.dof).sample(mean, generator)


@dataclass(frozen=True)
class Poisson:
    """The likelihood of counts log p(y) = y f − e^f − log y!; the output f is the logarithm of the rate."""

    discrete: ClassVar = True

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        y = like_output(y, output).to(output.dtype)
        return _per_example(y * output - output.exp() - torch.lgamma(y + 1))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output.exp()

    def std(self, output: Tensor) -> Tensor:
        return (output / 2).exp()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        k, rate = torch.broadcast_tensors(y.to(output.dtype).floor(), output.exp())
        return torch.where(k < 0, 0.0, torch.special.gammaincc(k.clamp_min(0) + 1, rate))

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return torch.poisson(output.exp(), generator)

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
        _check_positive("total_count", self.total_count, "a positive number; the larger, the nearer to Poisson")

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        y, r = like_output(y, output).to(output.dtype), self.total_count
        logit = output - math.log(r)  # of μ/(r + μ)
        coefficient = torch.lgamma(y + r) - math.lgamma(r) - torch.lgamma(y + 1)
        return _per_example(coefficient + y * F.logsigmoid(logit) + r * F.logsigmoid(-logit))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def mean(self, output: Tensor) -> Tensor:
        return output.exp()

    def std(self, output: Tensor) -> Tensor:
        mean = output.exp()
        return (mean + mean**2 / self.total_count).sqrt()

    def cdf(self, output: Tensor, y: Tensor) -> Tensor:
        k, p = torch.broadcast_tensors(y.to(output.dtype).floor(), torch.sigmoid(math.log(self.total_count) - output))
        r = torch.full_like(p, self.total_count)
        return torch.where(k < 0, 0.0, betainc(r, k.clamp_min(0) + 1, p))

    def sample(self, output: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r = torch.full_like(output, self.total_count)
        return torch.poisson(output.exp() * torch._standard_gamma(r, generator) / r, generator)


@dataclass(frozen=True)
class Bernoulli:
    """The likelihood of two classes with one logit: y log p + (1 − y) log(1 − p). Labels are 0 and 1."""

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        return _per_example(self.log_density(output, like_output(y, output).to(output.dtype)))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def class_log_probs(self, output: Tensor) -> Tensor:
        """Return log P(y = 0) and log P(y = 1) on a new last axis."""
        return torch.stack([F.logsigmoid(-output), F.logsigmoid(output)], dim=-1)

    @staticmethod
    def log_density(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return y log p + (1 − y) log(1 − p) of every output; there is no noise precision."""
        return -F.binary_cross_entropy_with_logits(output, y.expand_as(output), reduction="none")

    @staticmethod
    def residual(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return p − y."""
        return torch.sigmoid(output) - y


@dataclass(frozen=True)
class Categorical:
    """The likelihood of C classes with C logits on the last axis; y holds class numbers from 0 to C − 1."""

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        if y.shape != output.shape[:-1]:
            raise ValueError(
                f"logits of shape {list(output.shape)} need class numbers of shape {list(output.shape[:-1])}, "
                f"not {list(y.shape)}: the classes are on the last axis"
            )
        log_p = -F.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1), reduction="none")
        return _per_example(log_p.reshape(y.shape))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def class_log_probs(self, output: Tensor) -> Tensor:
        """Return the log-probabilities of all classes on the last axis."""
        return output.log_softmax(-1)

    @staticmethod
    def log_density(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return yₖ log pₖ for one-hot y; there is no noise precision."""
        return y * output.log_softmax(-1)

    @staticmethod
    def residual(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return p − y for one-hot y."""
        return output.softmax(-1) - y


FORMULAS: dict[str, Formulas] = {
    "gaussian": Gaussian,
    "input-noise": InputNoiseGaussian,
    "student-t": StudentT,
    "poisson": Poisson,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
}
CONTINUOUS = ("gaussian", "input-noise", "student-t")
"""The likelihoods of real targets, which may be standardised."""


def outputs_for(likelihood: str, targets: int) -> int:
    """Return how many outputs a network needs for so many targets a row."""
    return 2 * targets if likelihood == "input-noise" else targets


def like_output(y: Tensor, output: Tensor) -> Tensor:
    """Reshape targets [B] and [B, 1] to the shape of the outputs; raise ValueError for any other mismatch.

    Broadcasting [B] against [B, 1] would silently compare every target with every output.
    """
    if y.shape == output.shape:
        return y
    if (*y.shape, 1) == output.shape:
        return y.unsqueeze(-1)
    if y.shape == (*output.shape, 1):
        return y.squeeze(-1)
    raise ValueError(f"targets of shape {list(y.shape)} do not fit outputs of shape {list(output.shape)}")


def _like(value: float | Tensor, output: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=output.dtype, device=output.device)


def _randn_like(output: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(output.shape, dtype=output.dtype, device=output.device, generator=generator)


def _check_positive(name: str, value: float | Tensor, rule: str) -> None:
    numbers = torch.as_tensor(value).detach()
    if not bool(((numbers > 0) & numbers.isfinite()).all()):
        raise ValueError(f"{name}={value!r} is not valid: {rule}")


def _halves(output: Tensor) -> tuple[Tensor, Tensor]:
    targets = output.shape[-1] // 2
    return output[..., :targets], output[..., targets:]


def _check_dof(dof: float) -> None:
    if not 2 < dof < math.inf:
        raise ValueError(f"dof={dof!r} is not valid: above 2, so that the noise has a variance")


def _per_example(log_p: Tensor) -> Tensor:
    return log_p.flatten(start_dim=1).sum(-1) if log_p.dim() > 1 else log_p
