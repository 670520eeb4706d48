"""The probability of the targets under a prediction: pointwise, as most papers report it, or joint over all targets."""

from __future__ import annotations

import math

from torch import Tensor

from vadam.likelihoods import as_numbers, weights_of


def log_likelihood(log_prob_samples: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the pointwise log-likelihood 1/n Σᵢ log 1/S Σₛ p(yᵢ | θₛ), given log p(yᵢ | θₛ) [S, n].

    With ``weight`` [n] it is a weighted mean over the targets.
    """
    log_prob_samples = _table(log_prob_samples)
    each = log_prob_samples.logsumexp(0) - math.log(len(log_prob_samples))
    if weight is None:
        return each.mean()
    weight = weights_of(each, weight)
    return (each * weight).sum() / weight.sum()


def joint_log_likelihood(log_prob_samples: Tensor) -> Tensor:
    """Return the joint log-likelihood 1/n log 1/S Σₛ Πᵢ p(yᵢ | θₛ), given log p(yᵢ | θₛ) [S, n].

    The "test log-likelihood" of the paper's tables. The best draw dominates it, so it depends on S and on chance; the
    pointwise ``log_likelihood`` is what other papers report.
    """
    log_prob_samples = _table(log_prob_samples)
    S, n = log_prob_samples.shape
    return (log_prob_samples.sum(1).logsumexp(0) - math.log(S)) / n


def nll(log_prob_samples: Tensor) -> Tensor:
    """Return −``log_likelihood``, the predictive negative log-likelihood (log-loss)."""
    return -log_likelihood(log_prob_samples)


def _table(log_prob_samples: Tensor) -> Tensor:
    """Return the table [S, n] as numbers; raise ValueError for another number of axes, such as one average for each target."""
    table = as_numbers(log_prob_samples)
    if table.dim() != 2:
        raise ValueError(
            f"log-probabilities of shape {list(table.shape)} are not [samples, targets]: give prediction.log_prob_samples(y), not "
            "prediction.log_prob(y)"
        )
    return table
