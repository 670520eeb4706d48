"""The methods, and the settings that are tried for each: three rates, and three values of what decides how sure it is."""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import nn

from vadam.optim import IVON, VOGN, VadaGrad, Vadam
from vadam_paper.experiments.image.network import parts

Settings = dict[str, float]
Three = tuple[float, float, float]
RATE_OF_NORMS = 3e-3
"""Adam's, for BatchNorm's parameters where the method's own rate is not Adam's."""
OLD = 0.99
"""The weight of the old in averages of curvature: of the start, 0.99ᵗ is left after t steps."""
START = {"vadam": 0.01, "vogn": 0.01, "ivon": 0.03}
"""s at the start."""


def _grid(lr: Three, **knob: Three) -> tuple[Settings, ...]:
    """In each of them the middle first, for presets that try only some."""
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
    """What an optimizer of the family is told of the data: the posterior's temperature is in N and λ."""

    N: int
    temperature: float

    def scale(self, settings: Settings) -> dict[str, Any]:
        return {
            "num_data": self.N / self.temperature,
            "prior_precision": settings["prior_precision"] / self.temperature,
        }

    def start(self, method: str, settings: Settings) -> float:
        return (self.N * START[method] + settings["prior_precision"]) / self.temperature


def optimizer_of(
    method: str, settings: Settings, model: nn.Module, data: Data, generator: torch.Generator
) -> torch.optim.Optimizer:
    return MAKE.get(method, _adam)(settings, model, data, generator)


def start_left(method: str, settings: Settings, data: Data, steps: int) -> float:
    """What is left of the start in the precision, after so many steps."""
    return OLD**steps * data.N * START[method] / data.temperature


def _groups(model: nn.Module, rate_of_norms: float) -> list[dict[str, Any]]:
    sampled, not_sampled = parts(model)
    norms = [{"params": not_sampled, "deterministic": True, "lr": rate_of_norms}] if not_sampled else []
    return [{"params": sampled}, *norms]


def _adam(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    """Also for the members of an ensemble, and without a prior for the network with dropout; it is a weight decay of λ/N."""
    decay = settings.get("prior_precision", 0.0) / data.N
    return torch.optim.Adam(model.parameters(), settings["lr"], weight_decay=decay, fused=True)


def _vadam(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    lr, start = settings["lr"], data.start("vadam", settings)
    return Vadam(_groups(model, lr), lr, (0.9, OLD), **data.scale(settings), init_precision=start, generator=generator)


def _vogn(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    groups, start = _groups(model, RATE_OF_NORMS), data.start("vogn", settings)
    how: dict[str, Any] = {"beta": OLD, "momentum": 0.9, "init_precision": start}
    return VOGN(groups, settings["lr"], **how, **data.scale(settings), generator=generator)


def _ivon(settings: Settings, model: nn.Module, data: Data, generator: torch.Generator) -> torch.optim.Optimizer:
    groups, start = _groups(model, RATE_OF_NORMS), START["ivon"]
    return IVON(groups, settings["lr"], (0.9, OLD), **data.scale(settings), hess_init=start, generator=generator)


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
