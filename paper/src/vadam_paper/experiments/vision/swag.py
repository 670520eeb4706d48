"""SWAG (Maddox et al. 2019): a Gaussian from the weights that SGD visits at a constant rate.

    q(θ) = N(θ̄, ½ diag(mean θ² − θ̄²) + 1/(2(K − 1)) D Dᵀ),   D the last K deviations θ − θ̄ at their time

The running average θ̄ is torch's ``AveragedModel``; the second moment and D are collected here.
"""

import math

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

RANK = 20
"""Number K of deviations that are kept."""


class SWAG:
    """The moments of the visited weights, and draws from the Gaussian that they define."""

    def __init__(self, model: nn.Module) -> None:
        self._average = AveragedModel(model)
        self._squares = {name: p.detach().square() for name, p in model.named_parameters()}
        self._deviations = {name: p.new_zeros(0, *p.shape) for name, p in model.named_parameters()}

    @property
    def count(self) -> int:
        """Return the number of collected weights."""
        return int(self._average.n_averaged)

    @torch.no_grad()
    def collect(self, model: nn.Module) -> None:
        """Add the current weights."""
        self._average.update_parameters(model)
        mean, n = self.mean, self.count
        for name, p in model.named_parameters():
            self._squares[name] += (p.square() - self._squares[name]) / n
            self._deviations[name] = torch.cat([self._deviations[name], (p - mean[name])[None]])[-RANK:]

    @property
    def mean(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self._average.module.named_parameters()}

    def sample(self, n: int, *, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        rank = min(self.count, RANK)
        if rank < 2:
            raise RuntimeError(f"SWAG needs at least 2 collected weights, got {rank}: train for more epochs")
        shared = torch.randn(n, rank, generator=generator)
        draws = {}
        for name, mean in self.mean.items():
            spread = (self._squares[name] - mean.square()).clamp_min(0).sqrt()
            own = torch.randn(n, *mean.shape, generator=generator)
            low_rank = torch.tensordot(shared, self._deviations[name], 1) / math.sqrt(2 * (rank - 1))
            draws[name] = mean + spread * own / math.sqrt(2) + low_rank
        return draws

    def tensors(self) -> dict[str, Tensor]:
        """Return the state under names that start with ``swag/``."""
        found = {"swag/count": self._average.n_averaged}
        for part, values in (("mean", self.mean), ("squares", self._squares), ("deviations", self._deviations)):
            found |= {f"swag/{part}/{name}": value for name, value in values.items()}
        return found

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        self._average.n_averaged.copy_(tensors["swag/count"])
        for name, mean in self.mean.items():
            mean.copy_(tensors[f"swag/mean/{name}"])
            self._squares[name] = tensors[f"swag/squares/{name}"]
            self._deviations[name] = tensors[f"swag/deviations/{name}"]
