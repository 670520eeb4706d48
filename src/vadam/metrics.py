"""How good predictions are: pure functions of tensors, each a mean over the examples.

Errors and losses (``rmse``, ``nll``, ``brier``, ``ece``) go down, ``log_likelihood``, ``accuracy`` and ``auroc`` go up,
``coverage`` should be the level of its interval. Logarithms are natural.

Probabilities of classes are [n, C] with labels 0 … C − 1, or P(y = 1) [n] for two classes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vadam.likelihoods import like_output


def rmse(prediction: Tensor, y: Tensor) -> Tensor:
    """√ mean (prediction − y)².

    >>> rmse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(1.4142)
    """
    return (prediction - like_output(y, prediction)).square().mean().sqrt()


def log_likelihood(log_prob_samples: Tensor) -> Tensor:
    """1/n Σᵢ log 1/S Σₛ p(yᵢ | θₛ) from log p(yᵢ | θₛ) [S, n]: every example averages the draws by itself."""
    return (log_prob_samples.logsumexp(0) - math.log(len(log_prob_samples))).mean()


def joint_log_likelihood(log_prob_samples: Tensor) -> Tensor:
    """1/n log 1/S Σₛ Πᵢ p(yᵢ | θₛ) from log p(yᵢ | θₛ) [S, n]: a draw must explain all examples at once.

    The "test log-likelihood" of the paper's tables. The best draw dominates it, so it depends on S and on chance; the
    pointwise ``log_likelihood`` is what other papers report.
    """
    S, n = log_prob_samples.shape
    return (log_prob_samples.sum(1).logsumexp(0) - math.log(S)) / n


def nll(log_prob_samples: Tensor) -> Tensor:
    """−``log_likelihood``, the predictive negative log-likelihood (log-loss)."""
    return -log_likelihood(log_prob_samples)


def accuracy(probs: Tensor, y: Tensor) -> Tensor:
    """The share of examples whose most probable class is right."""
    _, correct = _top(probs, y)
    return correct.mean()


def brier(probs: Tensor, y: Tensor) -> Tensor:
    """mean Σ_c (p_c − 1[y = c])²; for two classes as [n] the one term (p − y)², half as much.

    >>> brier(torch.tensor([0.8, 0.4]), torch.tensor([1, 0]))
    tensor(0.1000)
    """
    if probs.dim() == 1:
        return (probs - like_output(y, probs)).square().mean()
    _check(probs, y)
    return (probs - torch.nn.functional.one_hot(y, probs.shape[1])).square().sum(1).mean()


def ece(probs: Tensor, y: Tensor, bins: int = 15) -> Tensor:
    """Expected calibration error Σ_b n_b/n |accuracy_b − confidence_b|, over ``bins`` equal intervals of confidence."""
    confidence, correct = _top(probs, y)
    bin_of = (confidence * bins).ceil().long().clamp(1, bins) - 1  # a bin holds its upper end
    return _calibration_gap(confidence, correct, bin_of, bins)


def adaptive_ece(probs: Tensor, y: Tensor, bins: int = 15) -> Tensor:
    """The same over ``bins`` groups of equally many examples, in the order of their confidence."""
    confidence, correct = _top(probs, y)
    rank = confidence.argsort(stable=True).argsort()
    return _calibration_gap(confidence, correct, rank * bins // len(rank), bins)


def coverage(lower: Tensor, upper: Tensor, y: Tensor) -> Tensor:
    """The share of targets inside their interval, ends included."""
    y = like_output(y, lower)
    return ((lower <= y) & (y <= upper)).to(lower.dtype).mean()


def auroc(score: Tensor, y: Tensor) -> Tensor:
    """P(score of a positive > score of a negative), ties counting half: the area under the ROC curve; y is 0 or 1.

    >>> auroc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.7500)
    """
    positive = y.bool()
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        raise ValueError(f"auroc compares two classes, but y has {n_positive} positives and {n_negative} negatives")
    _, value, count = score.unique(return_inverse=True, return_counts=True)
    mean_rank = (count.cumsum(0) - (count - 1) / 2)[value]
    rank_sum = mean_rank.double()[positive].sum()
    return ((rank_sum / n_positive - (n_positive + 1) / 2) / n_negative).to(score.dtype)


def _top(probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence in the most probable class, and whether that class is right (1 or 0)."""
    if probs.dim() == 1:
        probs = torch.stack([1 - probs, probs], dim=-1)
    _check(probs, y)
    confidence, label = probs.max(-1)
    return confidence, (label == y).to(probs.dtype)


def _check(probs: Tensor, y: Tensor) -> None:
    if probs.dim() != 2 or probs.shape[1] < 2 or y.shape != probs.shape[:1]:
        raise ValueError(
            f"labels of shape {list(y.shape)} do not fit probabilities of shape {list(probs.shape)}: "
            "give [n] and [n, C], or P(y = 1) as [n] where there are two classes"
        )


def _calibration_gap(confidence: Tensor, correct: Tensor, bin_of: Tensor, bins: int) -> Tensor:
    gap = torch.zeros(bins, dtype=confidence.dtype, device=confidence.device)
    return gap.index_add(0, bin_of, correct - confidence).abs().sum() / len(confidence)
