"""Score the predictions of a member on its test rows, in the original units of the targets.

    rmse                          √(1/n Σᵢ (yᵢ − 1/S Σₛ fₛ(xᵢ))²)
    log_likelihood                1/n Σᵢ log 1/S Σₛ p(yᵢ | fₛ(xᵢ))        pointwise, as everyone computes it
    joint_log_likelihood          1/n log 1/S Σₛ Πᵢ p(yᵢ | fₛ(xᵢ))        as the authors of Vadam computed it
    accuracy                      share of the rows whose most probable class is the right one

A member that diverged has log-likelihoods −inf, rmse inf, accuracy 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vadam import metrics
from vadam.ensemble import noise
from vadam.ensemble.stack import Stack
from vadam.likelihoods import CONTINUOUS, FORMULAS

WORST = {"rmse": math.inf, "log_likelihood": -math.inf, "joint_log_likelihood": -math.inf, "accuracy": 0.0}

Scores = dict[str, Tensor]


def scores(stack: Stack, tests: list[tuple[Tensor, Tensor]], samples: int, *, epoch: int = 0) -> Scores:
    """Return one number per member for each score; ``tests`` are standardised, ``epoch`` seeds the noise."""
    key = noise.keys(stack.seeds, [epoch], noise.Stream.EVALUATION)[0]
    rows = [_scores_of_one(stack[e], x, y, samples, key[e : e + 1]) for e, (x, y) in enumerate(tests)]
    return {name: torch.tensor([row[name] for row in rows], dtype=torch.float64) for name in rows[0]}


def _scores_of_one(stack: Stack, x: Tensor, y: Tensor, samples: int, key: Tensor) -> dict[str, float]:
    f = stack.standardised_outputs(x[None], samples, key)[0].double()  # [S, n, O]
    y, tau = y.double(), stack.noise_precision.double()
    y_std = stack.scaling.y_std[0]
    # Densities [S, n] per original unit of the targets.
    log_p = FORMULAS[stack.likelihood].log_density(f, y, tau).sum(-1) - y_std.log().sum()
    result = {
        "log_likelihood": metrics.log_likelihood(log_p),
        "joint_log_likelihood": metrics.joint_log_likelihood(log_p),
    }
    if stack.likelihood in CONTINUOUS:
        result["rmse"] = metrics.rmse(f.mean(0)[..., : y.shape[-1]] * y_std, y * y_std)
    elif stack.likelihood == "poisson":
        result["rmse"] = metrics.rmse(f.exp().mean(0), y)
    elif stack.likelihood == "bernoulli":
        result["accuracy"] = ((f.sigmoid().mean(0) > 0.5) == (y > 0.5)).double().mean()
    else:
        result["accuracy"] = metrics.accuracy(f.softmax(-1).mean(0), y.argmax(-1))
    return {name: _or_worst(name, value.item(), bool(f.isfinite().all())) for name, value in result.items()}


def _or_worst(name: str, value: float, finite: bool) -> float:
    return value if finite and not math.isnan(value) else WORST[name]
