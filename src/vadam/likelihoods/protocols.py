"""The protocols of likelihoods: what training, prediction and a stack of networks need of one."""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch
from torch import Tensor


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
