"""Beyond the table: for every split one posterior, and a mixture of several from different first weights.

p(y | x) = 1/(K S) Σₖ Σₛ p(y | f(x; θₖₛ)),  θₖₛ ~ qₖ
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadam import metrics
from vadam.ensemble import Member, Stack, train
from vadam.ensemble.losses import LOSSES
from vadam.experiments.uci import methods
from vadam.experiments.uci.config import Best

FIRST_MEMBER = 50
"""Seeds of a split: below it the final run and the folds, from it on the other members of the mixture."""


def final(config: Best, name: str, members: list[Member], workers: int) -> dict[str, Any]:
    """The scores of the split's first posterior, and under ``mixture`` those of all together; the test rows decide nothing."""
    mixtures = [_mixture(config, member) for member in members]
    setting = methods.setting(config, "vadam", name)
    training = train([m for mixture in mixtures for m in mixture], jobs=workers, **setting)
    assert training.stack is not None
    K, S = config.members, config.evaluation_samples
    rows = [
        _scores(training.stack[range(split * K, split * K + count)], member, S)
        for count in (1, K)
        for split, member in enumerate(members)
    ]
    single, mixture = rows[: len(members)], rows[len(members) :]
    return _columns(single) | {"mixture": _columns(mixture)}


def _mixture(config: Best, member: Member) -> list[Member]:
    others = range(member.seed + FIRST_MEMBER, member.seed + FIRST_MEMBER + config.members - 1)
    return [member, *(replace(member, seed=seed) for seed in others)]


def _scores(stack: Stack, member: Member, samples: int) -> dict[str, float]:
    """In the original units of the target."""
    rows = np.asarray(member.test)
    y = torch.from_numpy(np.array(member.y)[rows])[:, None]
    f = stack.outputs(np.array(member.x)[rows], samples).flatten(0, 1)  # [K·S, n, 1]
    tau = (stack.noise_precision.double() / stack.scaling.y_std[:, 0].double() ** 2)[0]
    log_p: Tensor = LOSSES["gaussian"].log_prob(f, y, tau)
    return {
        "rmse": metrics.rmse(f.mean(0), y).item(),
        "log_likelihood": metrics.log_likelihood(log_p).item(),
        "joint_log_likelihood": metrics.joint_log_likelihood(log_p).item(),
    }


def _columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    return {metric: [row[metric] for row in rows] for metric in rows[0]}
