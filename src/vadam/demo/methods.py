"""The five methods and their settings, one set for all regressions; none was chosen on test rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

import vadam
from vadam import MeanFieldGaussian

# init_precision = this factor times prior_precision: with little noise at the start, the first gradients are informative.
INIT_PRECISION_FACTOR = 30.0


@dataclass(frozen=True)
class Method:
    """An optimizer with its settings; ``cost`` is the price of a step in steps of Adam, to estimate the time left."""

    optimizer: Callable[..., Optimizer]
    rates: dict[str, Any]
    cost: float

    def build(
        self, network: nn.Module, *, num_data: int, prior_precision: float, generator: torch.Generator
    ) -> Optimizer:
        if self.optimizer is torch.optim.Adam:  # its prior is a weight decay of λ/N
            return self.optimizer(network.parameters(), weight_decay=prior_precision / num_data, **self.rates)
        optimizer = self.optimizer(
            network.parameters(),
            num_data=num_data,
            prior_precision=prior_precision,
            init_precision=INIT_PRECISION_FACTOR * prior_precision,
            generator=generator,
            **self.rates,
        )
        assert isinstance(optimizer, vadam.VariationalOptimizer)
        return optimizer.attach(network)

    @property
    def settings(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.rates.items())


METHODS = {
    "MAP-Adam": Method(torch.optim.Adam, {"lr": 0.02}, cost=1.0),
    "Vadam": Method(vadam.Vadam, {"lr": 0.03, "betas": (0.9, 0.998)}, cost=2.5),
    "Vprop": Method(vadam.Vprop, {"lr": 0.02, "beta": 0.998}, cost=2.2),
    "BBVI": Method(vadam.BBVI, {"lr": 0.02, "betas": (0.9, 0.999)}, cost=4.0),
    "VOGN": Method(vadam.VOGN, {"lr": 0.05, "beta": 0.99}, cost=3.5),
}


def posterior(network: nn.Module, optimizer: Optimizer) -> MeanFieldGaussian:
    """Return the posterior that an optimizer has learned; with Adam all weights are deterministic."""
    if isinstance(optimizer, vadam.VariationalOptimizer):
        return optimizer.posterior(network)
    return MeanFieldGaussian({}, {}, point={name: weight.detach() for name, weight in network.named_parameters()})
