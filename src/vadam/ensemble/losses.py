"""The likelihoods over a stack: log p(y | f), and its derivative by the output, for the gradient without autograd.

Outputs are [..., M, O]: M examples, O outputs; targets have the same last two axes, classes one-hot. τ, the noise precision,
is a tensor that broadcasts against the outputs; only the Gaussian uses it. ``log_prob`` is [..., M] and ``residual``,
[..., M, O], is −∂ log p/∂f.
"""

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


class Loss(Protocol):
    def log_prob(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor: ...

    def residual(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor: ...


class Gaussian:
    """log N(y | f, 1/τ)."""

    def log_prob(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor:
        return (0.5 * (tau.log() - math.log(2 * math.pi) - tau * (y - output) ** 2)).sum(-1)

    def residual(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor:
        return tau * (output - y)


class Bernoulli:
    """y log p + (1 − y) log(1 − p), p = 1/(1 + e⁻ᶠ)."""

    def log_prob(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor:
        return (y * logsigmoid(output) + (1 - y) * logsigmoid(-output)).sum(-1)

    def residual(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor:
        return torch.sigmoid(output) - y


class Categorical:
    """Σₖ yₖ log pₖ, p = softmax f."""

    def log_prob(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor:
        return (y * output.log_softmax(-1)).sum(-1)

    def residual(self, output: Tensor, y: Tensor, tau: Tensor) -> Tensor:
        return output.softmax(-1) - y


LOSSES: dict[str, Loss] = {"gaussian": Gaussian(), "bernoulli": Bernoulli(), "categorical": Categorical()}
