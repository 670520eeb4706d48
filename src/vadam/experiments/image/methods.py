"""The methods, and the settings that are tried for each: two rates, and three values of what decides how sure it is."""

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import nn

from vadam.experiments.image.network import parts
from vadam.optim import IVON, VOGN, VadaGrad, Vadam

Settings = dict[str, float]
RATE_OF_NORMS = 3e-3
"""Adam's, for BatchNorm's parameters where the method's own rate is not Adam's."""


def _grid(lr: tuple[float, float], **knob: tuple[float, float, float]) -> tuple[Settings, ...]:
    ((name, values),) = knob.items()
    return tuple({"lr": rate, name: value} for value, rate in product(values, lr))


PRIORS = (1.0, 0.1, 10.0)
GRIDS: dict[str, tuple[Settings, ...]] = {
    "adam": _grid((3e-3, 1e-2), prior_precision=PRIORS),
    "vadam": _grid((1e-2, 3e-2), prior_precision=(0.01, 0.001, 0.1)),
    "vogn": _grid((0.03, 0.1), first_s=(10.0, 3.0, 30.0)),
    "ivon": _grid((0.3, 1.0), first_s=(10.0, 3.0, 30.0)),
    "mc-dropout": _grid((3e-3, 1e-2), rate=(0.1, 0.05, 0.2)),
    "deep-ensemble": _grid((3e-3, 1e-2), prior_precision=PRIORS),
    "deep-ensemble-full": _grid((3e-3, 1e-2), prior_precision=PRIORS),
    "adagrad": _grid((0.01, 0.03), prior_precision=PRIORS),
    "vadagrad": _grid((0.01, 0.03), first_s=(10.0, 1.0, 100.0)),
}


def optimizer_of(
    method: str, settings: Settings, model: nn.Module, N: int, generator: torch.Generator
) -> torch.optim.Optimizer:
    return MAKE.get(method, _adam)(settings, model, N, generator)


def _groups(model: nn.Module, rate_of_norms: float) -> list[dict[str, Any]]:
    sampled, not_sampled = parts(model)
    norms = [{"params": not_sampled, "deterministic": True, "lr": rate_of_norms}] if not_sampled else []
    return [{"params": sampled}, *norms]


def _adam(settings: Settings, model: nn.Module, N: int, generator: torch.Generator) -> torch.optim.Optimizer:
    """Also for the members of an ensemble and the network with dropout; the prior is a weight decay of λ/N."""
    decay = settings.get("prior_precision", 0.0) / N
    return torch.optim.Adam(model.parameters(), settings["lr"], weight_decay=decay, fused=True)


def _vadam(settings: Settings, model: nn.Module, N: int, generator: torch.Generator) -> torch.optim.Optimizer:
    lr, lam = settings["lr"], settings["prior_precision"]
    return Vadam(_groups(model, lr), lr, num_data=N, prior_precision=lam, init_precision=N, generator=generator)


def _vogn(settings: Settings, model: nn.Module, N: int, generator: torch.Generator) -> torch.optim.Optimizer:
    """The first steps are those of SGD with the rate ``lr``, as IVON's are."""
    groups, start = _groups(model, RATE_OF_NORMS), 1.0 + N * settings["first_s"]
    lr = settings["lr"] * settings["first_s"]
    return VOGN(groups, lr, momentum=0.9, num_data=N, init_precision=start, generator=generator)


def _ivon(settings: Settings, model: nn.Module, N: int, generator: torch.Generator) -> torch.optim.Optimizer:
    groups, betas, start = _groups(model, RATE_OF_NORMS), (0.9, 0.999), settings["first_s"]
    return IVON(groups, settings["lr"], betas, num_data=N, hess_init=start, generator=generator)


def _adagrad(settings: Settings, model: nn.Module, N: int, generator: torch.Generator) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(model.parameters(), settings["lr"], weight_decay=settings["prior_precision"] / N)


def _vadagrad(settings: Settings, model: nn.Module, N: int, generator: torch.Generator) -> torch.optim.Optimizer:
    groups, start = _groups(model, settings["lr"]), N * settings["first_s"]
    return VadaGrad(groups, settings["lr"], num_data=N, init_precision=start, generator=generator)


MAKE: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "vadam": _vadam,
    "vogn": _vogn,
    "ivon": _ivon,
    "adagrad": _adagrad,
    "vadagrad": _vadagrad,
}
