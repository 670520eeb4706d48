"""Likelihoods of classes: the outputs are logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vadam.likelihoods.operands import check_range, like_output, per_example

NO_LABEL = torch.iinfo(torch.int64).min
"""The only label that torch ignores: its default, -100, would count as a class of probability 1."""


@dataclass(frozen=True)
class Bernoulli:
    """The likelihood of two classes with one logit: y log p + (1 − y) log(1 − p). Labels are 0 and 1."""

    def log_prob(self, output: Tensor, y: Tensor) -> Tensor:
        y = like_output(y, output).to(output.dtype)
        check_range(y, 0, 1, "the labels of Bernoulli are 0 and 1; of -1 and 1 make (y + 1) / 2")
        return per_example(self.log_density(output, y))

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
        self._check(output)
        if y.shape != output.shape[:-1]:
            raise ValueError(
                f"logits of shape {list(output.shape)} need class numbers of shape {list(output.shape[:-1])}, "
                f"not {list(y.shape)}: the classes are on the last axis"
            )
        rows, labels = output.reshape(-1, output.shape[-1]), y.reshape(-1)
        labels = labels if labels.is_floating_point() else labels.long()
        log_p = -F.cross_entropy(rows, labels, reduction="none", ignore_index=NO_LABEL)
        return per_example(log_p.reshape(y.shape))

    def nll(self, output: Tensor, y: Tensor) -> Tensor:
        return -self.log_prob(output, y).mean()

    def class_log_probs(self, output: Tensor) -> Tensor:
        """Return the log-probabilities of all classes on the last axis."""
        self._check(output)
        return output.log_softmax(-1)

    @staticmethod
    def _check(output: Tensor) -> None:
        if not output.dim() or output.shape[-1] < 2:
            raise ValueError(
                f"outputs of shape {list(output.shape)} have one logit, which would be a class of probability 1: "
                "use Bernoulli, or give the network a logit for each class"
            )

    @staticmethod
    def log_density(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return yₖ log pₖ for one-hot y; there is no noise precision."""
        return y * output.log_softmax(-1)

    @staticmethod
    def residual(output: Tensor, y: Tensor, noise_precision: Tensor | None = None) -> Tensor:
        """Return p − y for one-hot y."""
        return output.softmax(-1) - y
