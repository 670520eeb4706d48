"""Make an optimizer from the settings that a search tries, for experiments that train one network by many methods."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from vadam_paper.experiments.halton import Settings


class Setup(NamedTuple):
    """The weights, settings and data that an optimizer is made from."""

    params: list[nn.Parameter]
    settings: Settings
    N: int
    batch_size: int
    noise: torch.Generator

    def make(self, kind: Callable[..., torch.optim.Optimizer], **arguments: Any) -> torch.optim.Optimizer:
        """Return a variational optimizer: the settings are arguments of the same name."""
        return kind(self.params, num_data=self.N, generator=self.noise, **self.settings, **arguments)

    def precision_at(self, curvature: float) -> float:
        """Return the precision of the posterior where all weights have the same curvature."""
        return self.N * self.settings.get("data_weight", 1.0) * curvature + self.settings["prior_precision"]


def adamw(given: Setup) -> torch.optim.Optimizer:
    lr, decay = given.settings["lr"], given.settings["weight_decay"]
    return torch.optim.AdamW(given.params, lr, weight_decay=decay, fused=True)
