"""Check App. K: without the constant c the first weights are pure noise, and the first actions are at their bounds.

The actor of App. K, 400 and 300 ReLU units and a tanh, starts as in the authors' program; observations are standard normal.
"""

from itertools import pairwise
from typing import Any

import torch

from vadam.optim import Vadam
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.theory.config import Config

OBSERVATIONS, ACTIONS, HIDDEN = 17, 6, (400, 300)
LAM, C = 1e-8, 1e4
SATURATED = 0.999


def check(config: Config) -> dict[str, Any]:
    """Return the share of first actions beyond ±0.999 in every run, with c and without."""
    return {
        name: [saturated(config, run, c) for run in range(config.runs)]
        for name, c in (("with_c", C), ("without_c", 0.0))
    }


def saturated(config: Config, run: int, c: float) -> float:
    """Return the share of saturated actions of one sample of the weights."""
    random = generator(config.seed, "actor", run)
    first, second, last = (
        torch.nn.Linear(inputs, outputs) for inputs, outputs in pairwise((OBSERVATIONS, *HIDDEN, ACTIONS))
    )
    with torch.no_grad():
        for layer in (first, second, last):
            layer.weight.copy_(0.3 * torch.randn(layer.weight.shape, generator=random))
            layer.bias.fill_(0.1)
        last.weight.copy_(3e-3 * (2 * torch.rand(last.weight.shape, generator=random) - 1))
    actor = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last, torch.nn.Tanh())
    optimizer = Vadam(
        actor.parameters(),
        lr=1e-4,
        num_data=1,
        prior_precision=LAM,
        init_precision=LAM,
        sampling_precision=c,
        generator=random,
    )
    seen = torch.randn(100, OBSERVATIONS, generator=random)
    with torch.no_grad(), optimizer.sampled_params():
        actions = actor(seen)
    return float((actions.abs() > SATURATED).float().mean())
