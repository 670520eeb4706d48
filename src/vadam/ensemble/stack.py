"""The posteriors of E networks, and what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from vadam.ensemble import noise
from vadam.ensemble.engine import choose
from vadam.ensemble.layout import Weights, joined
from vadam.ensemble.members import Scaling
from vadam.ensemble.step import dropout_masks, gaussian_samples, points
from vadam.gaussian import MeanFieldGaussian

FLOATS_A_PASS = 2**19


@dataclass(frozen=True, eq=False)
class Stack:
    """E members: weights stacked along the first axis, and one number a member for everything else.

    ``stddev`` is None if the weights are points (MAP, MC-Dropout). Weights and noise precision are those of standardised
    data; ``scaling`` leads back to the original units.
    """

    network: nn.Module
    likelihood: str
    mean: Weights
    stddev: Weights | None
    prior_precision: Tensor | None
    noise_precision: Tensor
    dropout: Tensor | None
    seeds: list[int]
    scaling: Scaling
    engine: str = "auto"

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, members: int | Sequence[int]) -> Stack:
        """The stack of some members; of one, if ``members`` is a number."""
        index = [members] if isinstance(members, int) else list(members)

        def of(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: tensor[index] for name, tensor in value.items()}
            return None if value is None else value[index]

        return replace(
            self,
            mean=of(self.mean),
            stddev=of(self.stddev),
            prior_precision=of(self.prior_precision),
            noise_precision=of(self.noise_precision),
            dropout=of(self.dropout),
            seeds=[self.seeds[e] for e in index],
            scaling=Scaling(*map(of, self.scaling)),
        )

    @staticmethod
    def join(stacks: Sequence[Stack]) -> Stack:
        """Stacks of the same network and method, one after the other."""
        first = stacks[0]

        def of(field: str) -> Any:
            values = [getattr(stack, field) for stack in stacks]
            if isinstance(values[0], dict):
                return {name: torch.cat([value[name] for value in values]) for name in values[0]}
            return None if values[0] is None else torch.cat(values)

        fields = ("mean", "stddev", "prior_precision", "noise_precision", "dropout")
        return replace(
            first,
            **{field: of(field) for field in fields},
            seeds=[seed for stack in stacks for seed in stack.seeds],
            scaling=Scaling(*(torch.cat(parts) for parts in zip(*(stack.scaling for stack in stacks), strict=True))),
        )

    @property
    def finite(self) -> Tensor:
        """False for a member that diverged, [E]."""
        weights = [*self.mean.values(), *(self.stddev or {}).values()]
        return torch.stack([value.flatten(1).isfinite().all(1) for value in weights]).all(0)

    def posterior(self, member: int) -> MeanFieldGaussian:
        """The posterior of one member's weights, by the names of the network's parameters."""
        mean = {name: value[member] for name, value in self.mean.items()}
        if self.stddev is None:
            return MeanFieldGaussian({}, {}, point=mean)
        precision = {name: value[member] ** -2 for name, value in self.stddev.items()}
        if self.prior_precision is None:
            return MeanFieldGaussian(mean, precision)
        return MeanFieldGaussian(mean, precision, prior_precision=dict.fromkeys(mean, self.prior_precision[member]))

    def draw(self, samples: int, key: Tensor) -> Weights:
        """Weights [E, S, ...]."""
        shapes = {name: tuple(value.shape[1:]) for name, value in self.mean.items()}
        if self.stddev is None:
            return points(joined(self.mean), shapes, samples)
        return gaussian_samples(key, joined(self.mean), joined(self.stddev), shapes, samples)[0]

    def standardised_outputs(self, x: Tensor, samples: int, key: Tensor) -> Tensor:
        """f [E, S, n, O] at standardised inputs [E, n, ...], a few rows at a time."""
        engine = choose(self.engine, self.network, self.likelihood)
        theta = self.draw(samples, key)
        width = max(max(value[0, 0].numel() // max(1, value.shape[-1]), 1) for value in theta.values())
        rows = max(16, FLOATS_A_PASS // (len(self) * samples * width))
        keep: tuple[Tensor, ...] = ()
        if self.dropout is not None:
            keep = dropout_masks(key, self.dropout, theta, x.shape[1])
        blocks = [slice(i, i + rows) for i in range(0, x.shape[1], rows)]
        return torch.cat([engine.outputs(theta, x[:, b], tuple(mask[:, :, b] for mask in keep)) for b in blocks], dim=2)

    def outputs(self, x: Any, samples: int = 100) -> Tensor:
        """f [E, S, n, O] in the original units of the targets, at the same inputs ``x`` [n, ...] for every member."""
        x = torch.as_tensor(x).double()
        dtype = self.noise_precision.dtype
        scaled = (x - self.scaling.x_mean.unsqueeze(1)) / self.scaling.x_std.unsqueeze(1)
        key = noise.keys(self.seeds, [0], noise.Stream.PREDICTION)[0]
        f = torch.cat(
            [
                self[e].standardised_outputs(scaled[e : e + 1].to(dtype), samples, key[e : e + 1])
                for e in range(len(self))
            ]
        )
        return f * self.scaling.y_std[:, None, None].to(dtype) + self.scaling.y_mean[:, None, None].to(dtype)
