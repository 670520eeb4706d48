"""Metrics of classes. Probabilities are [n, C] with labels 0 … C − 1, or P(y = 1) [n] for two classes."""

from __future__ import annotations

from numbers import Integral

import torch
from torch import Tensor

from vadam.likelihoods import as_numbers, as_tensor, like_output

ROUNDING = 1e-3
"""Distance from 0 and 1 at which a number still counts as a probability."""


def accuracy(probs: Tensor, y: Tensor) -> Tensor:
    """Return the fraction of examples whose most probable class is right."""
    _, correct = _top(probs, y, need_probs=False)  # logits of several classes have the same order
    return correct.mean()


def brier(probs: Tensor, y: Tensor) -> Tensor:
    """Return the Brier score, mean Σ_c (p_c − 1[y = c])²; for P(y = 1) [n], the single term (p − y)², half as large.

    >>> brier(torch.tensor([0.8, 0.4]), torch.tensor([1, 0]))
    tensor(0.1000)
    """
    probs, y = _checked(as_numbers(probs), as_tensor(y))
    if probs.dim() == 1:
        return (probs - y.to(probs.dtype)).square().mean()
    return (probs - torch.nn.functional.one_hot(y.long(), probs.shape[1])).square().sum(1).mean()


def ece(probs: Tensor, y: Tensor, bins: int = 15) -> Tensor:
    """Return the expected calibration error Σ_b n_b/n |accuracy_b − confidence_b|, over ``bins`` equal intervals of confidence."""
    _check_bins(bins)
    confidence, correct = _top(probs, y)
    return _calibration_gap(confidence, correct, _equal_bins(confidence, bins), bins)


def adaptive_ece(probs: Tensor, y: Tensor, bins: int = 15) -> Tensor:
    """Return the calibration error over ``bins`` groups of equal size, sorted by confidence.

    Examples of one confidence share their mean accuracy, so that the order of the rows does not matter.
    """
    _check_bins(bins)
    confidence, correct = _top(probs, y)
    _, group, size = confidence.unique(return_inverse=True, return_counts=True)
    correct = (_sums(correct[None], group, len(size))[0] / size)[group]
    rank = confidence.argsort(stable=True).argsort()
    return _calibration_gap(confidence, correct, rank * bins // len(rank), bins)


def reliability_curve(probs: Tensor, y: Tensor, bins: int = 15) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean confidence, accuracy and number of examples of every non-empty interval of confidence."""
    _check_bins(bins)
    confidence, correct = _top(probs, y)
    bin_of = _equal_bins(confidence, bins)
    sums = _sums(torch.stack([confidence, correct, torch.ones_like(correct)]), bin_of, bins)
    means = (sums / sums[2]).to(confidence.dtype)[:, sums[2] > 0]
    return means[0], means[1], sums[2][sums[2] > 0].long()


def auroc(score: Tensor, y: Tensor) -> Tensor:
    """Return the area under the ROC curve, P(score of a positive > score of a negative), ties counting half; y is 0 or 1.

    >>> auroc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.7500)
    """
    score = as_numbers(score)
    y = like_output(as_tensor(y, score), score)
    _check_labels(y, 2)
    if bool(score.isnan().any()):
        raise ValueError("score holds NaN, which has no place in the order of examples: leave these examples out")
    positive = y.bool()
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        raise ValueError(
            f"auroc compares two classes, but y has {n_positive} positives and {n_negative} negatives: give examples of both"
        )
    _, value, count = score.unique(return_inverse=True, return_counts=True)
    mean_rank = (count.cumsum(0) - (count - 1) / 2)[value]
    rank_sum = mean_rank.double()[positive].sum()
    return ((rank_sum / n_positive - (n_positive + 1) / 2) / n_negative).to(score.dtype)


def _top(probs: Tensor, y: Tensor, *, need_probs: bool = True) -> tuple[Tensor, Tensor]:
    """Return the confidence in the most probable class, and 1 if that class is right, else 0."""
    probs, y = _checked(as_numbers(probs), as_tensor(y), need_probs=need_probs)
    if probs.dim() == 1:
        probs = torch.stack([1 - probs, probs], dim=-1)
    confidence, label = probs.max(-1)
    return confidence, (label == y).to(probs.dtype)


def _checked(probs: Tensor, y: Tensor, *, need_probs: bool = True) -> tuple[Tensor, Tensor]:
    """Raise ValueError unless these are probabilities and the numbers of classes; NaN passes, and the metric is NaN."""
    if probs.dim() == 1:
        y = like_output(y, probs)
    elif probs.dim() != 2 or probs.shape[1] < 2 or y.shape != probs.shape[:1]:
        raise ValueError(
            f"labels of shape {list(y.shape)} do not fit probabilities of shape {list(probs.shape)}: "
            "give [n] and [n, C], or P(y = 1) as [n] where there are two classes"
        )
    wrong = probs[(probs < -ROUNDING) | (probs > 1 + ROUNDING)]
    if len(wrong) and (need_probs or probs.dim() == 1):
        raise ValueError(f"probs holds {wrong[0].item():g}, which is no probability: of logits take softmax or sigmoid")
    _check_labels(y, 2 if probs.dim() == 1 else probs.shape[1])
    return probs, y


def _check_labels(y: Tensor, classes: int) -> None:
    """Raise ValueError unless all labels are whole numbers from 0 to C − 1."""
    wrong = y[~((y >= 0) & (y < classes) & (y == y.floor()))] if y.dtype is not torch.bool else y[:0]
    if wrong.numel():
        raise ValueError(f"y holds {wrong.flatten()[0].item():g}: give whole numbers from 0 to {classes - 1}")


def _check_bins(bins: int) -> None:
    if isinstance(bins, bool) or not isinstance(bins, Integral) or bins < 1:
        raise ValueError(f"bins={bins!r} is not valid: give a whole number from 1")


def _equal_bins(confidence: Tensor, bins: int) -> Tensor:
    """Return the number of each example's interval; an interval contains its upper end."""
    return (confidence * bins).ceil().long().clamp(1, bins) - 1


def _calibration_gap(confidence: Tensor, correct: Tensor, bin_of: Tensor, bins: int) -> Tensor:
    gaps = _sums((correct - confidence)[None], bin_of, bins)
    return (gaps.abs().sum() / len(confidence)).to(confidence.dtype)


def _sums(rows: Tensor, bin_of: Tensor, bins: int) -> Tensor:
    """Return the sums over each bin in double precision: in single precision a million additions round."""
    sums = torch.zeros(len(rows), bins, dtype=torch.float64, device=rows.device)
    return sums.index_add(1, bin_of, rows.double())
