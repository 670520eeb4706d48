"""The methods and the settings to try for each: three learning rates, and three values of prior or dropout rate."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import nn

from vadam.optim import IVON, VOGN, VadaGrad, Vadam
from vadam_paper.experiments.image.network import parts

Settings = dict[str, float]
Three = tuple[float, float, float]
NORM_RATE = 3e-3
"""Adam's learning rate, for BatchNorm's parameters where the method's own rate has another scale."""
BETA = 0.99
"""Decay rate of the curvature average: after t steps the start has the weight 0.99ᵗ."""
START = {"vadam": 0.01, "vogn": 0.01, "ivon": 0.03}
"""Initial curvature s."""


def _grid(lr: Three, **knob: Three) -> tuple[Settings, ...]:
    """Return the settings of a grid, those with the middle values first, for presets that try only some."""
    ((name, values),) = knob.items()
    return tuple({"lr": rate, name: value} for value, rate in product(values, lr))


PRIORS = (0.3, 0.03, 3.0)
ADAMS_RATES = (0.006, 0.002, 0.02)
GRIDS: dict[str, tuple[Settings, ...]] = {
    "adam": _grid(ADAMS_RATES, prior_precision=PRIORS),
    "vadam": _grid((0.03, 0.01, 0.1), prior_precision=PRIORS),
    "vogn": _grid((0.003, 0.001, 0.01), prior_precision=PRIORS),
    "ivon": _grid((1.0, 0.3, 3.0), prior_precision=PRIORS),
    "mc-dropout": _grid(ADAMS_RATES, rate=(0.05, 0.02, 0.1)),
    "deep-ensemble": _grid(ADAMS_RATES, prior_precision=PRIORS),
    "deep-ensemble-full": _grid(ADAMS_RATES, prior_precision=PRIORS),
    "adagrad": _grid((0.03, 0.01, 0.1), prior_precision=PRIORS),
    "vadagrad": _grid((0.03, 0.01, 0.1), first_s=(10.0, 1.0, 100.0)),
}


class Data(NamedTuple):
    """The size of the data and the posterior's temperature, which scales N and λ."""

    N: int
    temperature: float

    def scale(self, settings: Settings) -> dict[str, Any]:
        """Return num_data and prior_precision, divided by the temperature."""
        return {
            "num_data": self.N / self.temperature,
            "prior_precision": settings["prior_precision"] / self.temperature,
        }

    def start(self, method: str, settings: Settings) -> float:
        """Return the initial precision."""
        return (self.N * START[method] + settings["prior_precision"]) / self.temperature


def optimizer_of(
    method: str, settings: Settings, model: nn.Module, data: Data, generator: torch.Generator
) -> torch.optim.Optimizer:
    return MAKE.get(method, _adam)(settings, model, data, generator)


def remaining_start(method: str, settings: Settings, data: Data, steps: int) -> float:
    """Return the part of the precision that the start still contributes after the given number of steps."""
    return BETA**steps * data.N * START[method] / data.temperature


def _groups(model: nn.Module, rate_of_norms: float) -> list[dict[str, Any]]:
    sampled, not_sampled = parts(model)
    norms = [{"params": not_sampled, "deterministic": True, "lr": rate_of_norms}] if not_sampled else []
    return [{"params": sampled}, *norms]


def _adam(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    """Return Adam with the prior as weight decay λ/N.

    It also trains ensemble members, and without a prior the network with dropout.
    """
    decay = settings.get("prior_precision", 0.0) / data.N
    return torch.optim.Adam(model.parameters(), settings["lr"], weight_decay=decay, fused=True)


def _vadam(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    lr, start = settings["lr"], data.start("vadam", settings)
    return Vadam(_groups(model, lr), lr, (0.9, BETA), **data.scale(settings), init_precision=start, generator=generator)


def _vogn(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    groups, start = _groups(model, NORM_RATE), data.start("vogn", settings)
    how: dict[str, Any] = {"beta": BETA, "momentum": 0.9, "init_precision": start}
    return VOGN(groups, settings["lr"], **how, **data.scale(settings), generator=generator)


def _ivon(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    groups, start = _groups(model, NORM_RATE), START["ivon"]
    return IVON(
        groups,
        settings["lr"],
        (0.9, BETA),
        **data.scale(settings),
        hess_init=start,
        clip_radius=math.inf,
        generator=generator,
    )


def _adagrad(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(model.parameters(), settings["lr"], weight_decay=settings["prior_precision"] / data.N)


def _vadagrad(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    groups, start = _groups(model, settings["lr"]), data.N * settings["first_s"]
    return VadaGrad(groups, settings["lr"], num_data=data.N, init_precision=start, generator=generator)


MAKE: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "vadam": _vadam,
    "vogn": _vogn,
    "ivon": _ivon,
    "adagrad": _adagrad,
    "vadagrad": _vadagrad,
}
