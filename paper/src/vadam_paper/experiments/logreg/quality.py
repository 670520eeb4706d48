"""Measure the quality of q: negative ELBO per datum, test log-loss, symmetric KL to the exact mean-field optimum."""

from functools import cache

import torch
from torch import Tensor

from vadam.exact import logistic
from vadam_paper.experiments.logreg.problem import Problem


def symmetric_kl(mean_a: Tensor, precision_a: Tensor, mean_b: Tensor, precision_b: Tensor) -> Tensor:
    """Return (KL(a‖b) + KL(b‖a))/2 of diagonal Gaussians over the last axis; the logarithms cancel."""
    ratio = precision_a / precision_b + precision_b / precision_a - 2
    return ((ratio + (mean_a - mean_b) ** 2 * (precision_a + precision_b)) / 4).sum(-1)


def nelbo_per_datum(problem: Problem, mean: Tensor, precision: Tensor) -> list[float]:
    """Return −ELBO/N of every member, without the normaliser of the bias prior, as the authors do."""
    values = []
    for member in range(problem.members):
        X, y = problem.training_set(member)
        elbo = logistic.elbo(
            X,
            y,
            mean[member],
            1 / precision[member],
            problem.prior_precision,
            prior_normaliser_mask=problem.normaliser,
        )
        values.append(-elbo.item() / problem.num_data)
    return values


def log_loss(problem: Problem, mean: Tensor, precision: Tensor) -> list[float]:
    """Return the log-loss of the predictive probabilities on the test rows, in nats."""
    return [
        logistic.log_loss(*problem.test_set(member), mean[member], 1 / precision[member]).item()
        for member in range(problem.members)
    ]


@cache
def _fit(problem: Problem, member: int) -> logistic.Fit:
    return logistic.mean_field(*problem.training_set(member), problem.prior_precision)


def mean_field_optimum(problem: Problem) -> tuple[Tensor, Tensor]:
    """Return mean and precision [E, D] of MF-Exact for every member."""
    distinct = {tuple(rows): member for member, rows in reversed(list(enumerate(problem.train.tolist())))}
    fits = [_fit(problem, distinct[tuple(rows)]) for rows in problem.train.tolist()]
    return torch.stack([fit.mean for fit in fits]), torch.stack([fit.precision for fit in fits])
