"""What the network's outputs say about the targets: log p(y | f), f = model(x).

    Gaussian       y = f + noise, noise ~ N(0, 1/noise_precision)
    Bernoulli      P(y = 1) = 1/(1 + e⁻ᶠ)                            f are logits, y is 0 or 1
    Categorical    P(y = c) = e^f_c / Σₖ e^f_k                       f are logits on the last axis, y is the class

``nll(output, y)`` is the training loss, the minibatch mean; ``log_prob(output, y)`` has one number per example. The
first axis counts the examples; over all others the log-probabilities are added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Likelihood(Protocol):
    def log_prob(self, output: Tensor, y: Tensor) -> Tensor: ...

    def nll(self, output: Tensor, y: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Regression: log N(y | f, 1/noise_precision), a number or a tensor that broadcasts to the outputs.

    >>> Gaussian(noise_precision=4.0).nll(torch.zeros(3), torch.ones(3))  # ½ (log 2π − log 4 + 4)
    tensor(2.2258)
    """

    noise_precision: float | Tensor

    def __post_init__(self) -> None:
        tau = torch.as_tensor(self.noise_precision).detach()
        if not bool(((tau > 0) & tau.isfinite()).all()):
            raise ValueError(
                f"noise_precision={self.noise_precision!r} is not valid: 1/variance of the noise is positive"
            )

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        tau = torch.as_tensor(self.noise_precision, dtype=output.dtype, device=output.device)
        log_p = 0.5 * (tau.log() - math.log(2 * math.pi) - tau * (like_output(y, output) - output) ** 2)
        return _per_example(log_p)

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def noise_std(self, output: Tensor) -> Tensor:
        """Standard deviation of the noise on every output."""
        tau = torch.as_tensor(self.noise_precision, dtype=output.dtype, device=output.device)
        return tau.rsqrt().expand_as(output)


@dataclass(frozen=True)
class Bernoulli:
    """Two classes, one logit each: log p(y) = y log p + (1 − y) log(1 − p). Labels are 0 and 1, not −1 and 1."""

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        y = like_output(y, output).to(output.dtype)
        return _per_example(-F.binary_cross_entropy_with_logits(output, y, reduction="none"))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def class_log_probs(self, output: Tensor) -> Tensor:
        """log P(y = 0) and log P(y = 1) on a new last axis."""
        return torch.stack([F.logsigmoid(-output), F.logsigmoid(output)], dim=-1)


@dataclass(frozen=True)
class Categorical:
    """C classes, C logits on the last axis; y holds the number of the class, 0 to C − 1."""

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
        return output.log_softmax(-1)


def like_output(y: Tensor, output: Tensor) -> Tensor:
    """Targets in the shape of the outputs: [B] and [B, 1] are the same, everything else must agree.

    Broadcasting [B] against [B, 1] would silently compare every target with every output.
    """
    if y.shape == output.shape:
        return y
    if (*y.shape, 1) == output.shape:
        return y.unsqueeze(-1)
    if y.shape == (*output.shape, 1):
        return y.squeeze(-1)
    raise ValueError(f"targets of shape {list(y.shape)} do not fit outputs of shape {list(output.shape)}")


def _per_example(log_p: Tensor) -> Tensor:
    return log_p.flatten(start_dim=1).sum(-1) if log_p.dim() > 1 else log_p
