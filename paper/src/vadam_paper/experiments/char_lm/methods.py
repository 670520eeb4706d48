"""The four methods of App. M with the settings of its Table 4, and three of ours."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from vadam.optim import IVON, VOGN, VadaGrad, Vadam
from vadam.optim.base import VariationalOptimizer

Make = Callable[..., torch.optim.Optimizer]


class Method(NamedTuple):
    """An optimizer with its schedule: ``alpha`` is divided by 10 every ``K`` of 200 epochs.

    ``make(weights, examples, generator)`` returns the optimizer.
    """

    alpha: float
    K: int
    make: Make
    example: str = "character"
    """Unit of the mean loss: characters, sequences with the losses of their characters summed, or the whole text."""


def _plain(kind: type[torch.optim.Optimizer], **arguments: Any) -> Make:
    return lambda weights, examples, generator: kind(weights, **arguments)


def _sampled(kind: type[VariationalOptimizer], *, first_s: float | None = None, **arguments: Any) -> Make:
    """Return a factory of a variational optimizer: N is the number of examples; q starts with the precision N s₁."""

    def make(weights: Any, examples: float, generator: torch.Generator) -> torch.optim.Optimizer:
        start: dict[str, Any] = {} if first_s is None else {"init_precision": examples * first_s}
        return kind(weights, num_data=examples, generator=generator, **start, **arguments)

    return make


def adagrad(alpha: float, beta: float) -> Method:
    """Return AdaGrad with s ← s + β ĝ∘ĝ, μ ← μ − α ĝ/√s.

    It equals torch's Adagrad with the learning rate α/√β.
    """
    return Method(alpha / beta**0.5, 80, _plain(torch.optim.Adagrad))


METHODS = {
    "sgd": Method(0.5, 80, _plain(torch.optim.SGD)),
    "adagrad": adagrad(0.025, beta=0.5),
    "adam": Method(0.0012, 40, _plain(torch.optim.Adam, betas=(0.9, 0.999), fused=True)),
    "vadagrad": Method(0.0075, 40, _sampled(VadaGrad, first_s=1e-4, beta=0.5)),
    "vadagrad-total": Method(0.0075, 40, _sampled(VadaGrad, first_s=1e-4, beta=0.5), "text"),
    "vadam": Method(0.0012, 40, _sampled(Vadam, first_s=1.0), "sequence"),
    "ivon": Method(2.0, 80, _sampled(IVON, hess_init=0.01, clip_radius=math.inf)),
    "vogn": Method(0.01, 40, _sampled(VOGN, first_s=1.0, beta=0.999, momentum=0.9), "sequence"),
}
