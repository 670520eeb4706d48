"""Metrics of a model that may abstain: it answers the examples with the least uncertainty; the risk is their mean loss.

``uncertainty`` [n] orders the examples, e.g. ``prediction.entropy`` or ``prediction.std``; ``loss`` [n] is the loss of each,
0 or 1 for classes. Examples of equal uncertainty are answered together or not at all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vadam.likelihoods import as_numbers


def risk_coverage_curve(uncertainty: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    """Return the fraction of answered examples and their mean loss, for every threshold of the uncertainty.

    >>> risk_coverage_curve(torch.tensor([0.1, 0.9, 0.5]), torch.tensor([0.0, 1.0, 0.0]))
    (tensor([0.3333, 0.6667, 1.0000]), tensor([0.0000, 0.0000, 0.3333]))
    """
    answered, total, _, dtype = _accepted(uncertainty, loss)
    return (answered / answered[-1]).to(dtype), (total / answered).to(dtype)


def aurc(uncertainty: Tensor, loss: Tensor) -> Tensor:
    """Return the area under the risk-coverage curve (Geifman and El-Yaniv 2017): the mean risk over 1, 2, … n answers.

    Examples of equal uncertainty count with the expectation over their order.
    """
    _, total, size, dtype = _accepted(uncertainty, loss)
    mean_loss = torch.diff(total, prepend=total.new_zeros(1)) / size
    each = torch.repeat_interleave(mean_loss, size.long()).cumsum(0)
    return (each / torch.arange(1, len(each) + 1, dtype=each.dtype, device=each.device)).mean().to(dtype)


def coverage_at_risk(uncertainty: Tensor, loss: Tensor, risk: float) -> Tensor:
    """Return the largest fraction of examples that can be answered with a mean loss of at most ``risk``, or 0."""
    shares, risks = risk_coverage_curve(uncertainty, loss)
    return torch.where(risks <= risk, shares, torch.zeros_like(shares)).max()


def selective_accuracy(uncertainty: Tensor, correct: Tensor, coverage: float) -> Tensor:
    """Return the accuracy on the fraction ``coverage`` of the examples with the least uncertainty."""
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage={coverage!r} is not valid: give a share above 0 and at most 1, e.g. 0.8")
    uncertainty, correct = as_numbers(uncertainty), as_numbers(correct)
    shares, risks = risk_coverage_curve(uncertainty, 1 - correct.to(uncertainty.dtype))
    enough = shares >= coverage - 1e-6  # rounding of k/n
    return 1 - risks[enough.nonzero()[0, 0]]


def _accepted(uncertainty: Tensor, loss: Tensor) -> tuple[Tensor, Tensor, Tensor, torch.dtype]:
    """Return, for every value of the uncertainty, the examples at or below it, their loss, and the number at it.

    These sums are of double precision; the last value is the dtype of the result.
    """
    uncertainty, loss = as_numbers(uncertainty), as_numbers(loss)
    if uncertainty.dim() != 1 or loss.shape != uncertainty.shape or not len(loss):
        raise ValueError(
            f"losses of shape {list(loss.shape)} do not fit uncertainties of shape {list(uncertainty.shape)}: "
            "give one of each for every example"
        )
    if bool(uncertainty.isnan().any()):
        raise ValueError("uncertainty holds NaN, which has no place in the order of examples: leave these examples out")
    values, place = uncertainty.unique(return_inverse=True)
    losses = loss.double()
    size = torch.zeros_like(values, dtype=losses.dtype).index_add(0, place, torch.ones_like(losses))
    total = torch.zeros_like(size).index_add(0, place, losses)
    return size.cumsum(0), total.cumsum(0), size, torch.promote_types(loss.dtype, uncertainty.dtype)
