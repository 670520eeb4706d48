"""Beyond the table: for every split one posterior, and a mixture of several from different initial weights.

    p(y | x) = 1/(K S) Σₖ Σₛ N(y | f(x; θₖₛ), 1/τ),  θₖₛ ~ qₖ

MC-Dropout, trained as long and searched as widely, has the same: one network, and a mixture of several.
τ is fitted to the held-out rows of the folds, once for one posterior and once for the mixture.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadam import metrics
from vadam.ensemble import Member, Stack, train
from vadam.likelihoods import Gaussian
from vadam.tuning import noise_precision
from vadam_paper.experiments.uci import methods
from vadam_paper.experiments.uci.config import Best
from vadam_paper.experiments.uci.split_networks import folds

SEEDS_APART = 1_000_000
"""Seed offset between members of a mixture; splits and folds use smaller offsets."""


def final(config: Best, method: str, name: str, members: list[Member], workers: int) -> dict[str, Any]:
    """Return the scores of the first network of each split, and under ``mixture`` those of the mixture.

    The test rows are not used for any choice.
    """
    networks = [network for member in members for network in (member, *folds(config, member))]
    setting = methods.setting(config, method, name)
    stack = train([m for network in networks for m in mixture(config, network)], jobs=workers, **setting).stack
    assert stack is not None
    of_split, K = 1 + config.folds, config.members
    single: list[dict[str, float]] = []
    mixed: list[dict[str, float]] = []
    for split in range(len(members)):
        numbers = range(of_split * split, of_split * (split + 1))
        predictions = [_predictions(stack[range(n * K, n * K + K)], networks[n], config) for n in numbers]
        for scores, count in ((single, 1), (mixed, K)):
            (f, y), *left_out = [(f[:count].flatten(0, 1), y) for f, y in predictions]
            scores.append(_scores(f, y, noise_precision(left_out)))
    return _columns(single) | {"mixture": _columns(mixed)}


def mixture(config: Best, network: Member) -> list[Member]:
    return [replace(network, seed=network.seed + SEEDS_APART * k) for k in range(config.members)]


def _predictions(stack: Stack, network: Member, config: Best) -> tuple[Tensor, Tensor]:
    """Return outputs [members, samples, n, 1] and targets [n, 1] of the test rows, in original units."""
    rows = np.asarray(network.test)
    return stack.outputs(np.array(network.x)[rows], config.evaluation_samples), _column(network.y, rows)


def _column(y: Any, rows: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(y)[rows])[:, None].double()


def _scores(f: Tensor, y: Tensor, tau: float) -> dict[str, float]:
    log_p = Gaussian.log_density(f, y, torch.tensor(tau, dtype=torch.float64)).sum(-1)
    return {
        "rmse": metrics.rmse(f.mean(0), y).item(),
        "log_likelihood": metrics.log_likelihood(log_p).item(),
        "joint_log_likelihood": metrics.joint_log_likelihood(log_p).item(),
        "noise_precision": tau,
    }


def _columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    return {metric: [row[metric] for row in rows] for metric in rows[0]}
