"""The posteriors of E networks, and their predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vadam.default_device import default_device
from vadam.ensemble import noise
from vadam.ensemble.engine import choose
from vadam.ensemble.layout import Weights, joined
from vadam.ensemble.members import Member, Scaling, copied, rows_of
from vadam.ensemble.step import dropout_masks, gaussian_samples, points
from vadam.gaussian import MeanFieldGaussian
from vadam.likelihoods import FORMULAS, LOG_NOISE_BOUND, outputs_for

FLOATS_A_PASS = 2**17
TENSORS = ("mean", "precision", "prior_precision", "noise_precision", "dropout", "temperature")


@dataclass(frozen=True, eq=False)
class Stack:
    """The posteriors of E members: weights stacked along the first axis, and one number per member for everything else.

    ``precision`` is None if the weights are points (MAP, MC-Dropout). Weights and noise precision are those of
    standardised data; ``scaling`` leads back to the original units. ``prior_mean`` is that of all weights, and ``temperature`` is
    None where it was not kept.
    """

    network: nn.Module
    likelihood: str
    mean: Weights
    precision: Weights | None
    prior_precision: Tensor | None
    noise_precision: Tensor
    dropout: Tensor | None
    seeds: list[int]
    scaling: Scaling
    engine: str = "auto"
    prior_mean: float = 0.0
    temperature: Tensor | None = None

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, members: int | slice | Sequence[int] | Sequence[bool] | np.ndarray | Tensor) -> Stack:
        """Return the stack of some members, given by number, slice or a mask such as ``finite``, or of one if ``members`` is a number."""
        chosen = members if isinstance(members, slice) else np.asarray(members, dtype=None if np.size(members) else int)
        index = np.atleast_1d(np.arange(len(self))[chosen]).tolist()

        def of(value: Tensor) -> Tensor:
            return value[index]

        return replace(self._with(of), seeds=[self.seeds[e] for e in index])

    @staticmethod
    def join(stacks: Sequence[Stack]) -> Stack:
        """Join stacks of the same network and method."""
        first = stacks[0]

        def of(field: str) -> Any:
            values = [getattr(stack, field) for stack in stacks]
            if isinstance(values[0], dict):
                return {name: torch.cat([value[name] for value in values]) for name in values[0]}
            return None if values[0] is None else torch.cat(values)

        return replace(
            first,
            **{field: of(field) for field in TENSORS},
            seeds=[seed for stack in stacks for seed in stack.seeds],
            scaling=Scaling(*(torch.cat(parts) for parts in zip(*(stack.scaling for stack in stacks), strict=True))),
        )

    @property
    def finite(self) -> Tensor:
        """Return False for each member that diverged, [E]."""
        weights = [*self.mean.values(), *(self.precision or {}).values()]
        return torch.stack([value.reshape(len(value), -1).isfinite().all(1) for value in weights]).all(0)

    def posterior(self, member: int) -> MeanFieldGaussian:
        """Return the posterior of one member's weights, by the names of the network's parameters."""
        mean = {name: value[member] for name, value in self.mean.items()}
        if self.precision is None:
            return MeanFieldGaussian({}, {}, point=mean)
        precision = {name: value[member] for name, value in self.precision.items()}
        T = 1.0 if self.temperature is None else float(self.temperature[member])
        if self.prior_precision is None:
            return MeanFieldGaussian(mean, precision, temperature=dict.fromkeys(mean, T) if T != 1 else {})
        return MeanFieldGaussian(
            mean,
            precision,
            prior_precision=dict.fromkeys(mean, self.prior_precision[member]),
            prior_mean=dict.fromkeys(mean, self.prior_mean) if self.prior_mean else None,
            temperature=dict.fromkeys(mean, T) if T != 1 else {},
        )

    def draw(self, samples: int, key: Tensor) -> Weights:
        """Draw weights [E, S, ...]."""
        shapes = {name: tuple(value.shape[1:]) for name, value in self.mean.items()}
        if self.precision is None:
            return points(joined(self.mean), shapes, samples)
        return gaussian_samples(key, joined(self.mean), joined(self.precision).rsqrt(), shapes, samples)[0]

    def standardised_outputs(self, x: Tensor, samples: int, key: Tensor, *, one_mask: bool = False) -> Tensor:
        """Return f [E, S, n, O] at standardised inputs [E, n, ...], computed in blocks of rows.

        Dropout masks differ between rows, or are the same in all: ``one_mask``.
        """
        engine = choose(self.engine, self.network, self.likelihood)
        theta = self.draw(samples, key)
        width = max(math.prod(value.shape[2:3]) for value in theta.values())
        rows = max(16, FLOATS_A_PASS // (len(self) * samples * width))
        blocks = []
        for first in range(0, x.shape[1], rows):
            block = x[:, first : first + rows]
            keep: tuple[Tensor, ...] = ()
            if self.dropout is not None:
                masks = 1 if one_mask else block.shape[1]
                keep = dropout_masks(key, self.dropout, theta, masks, first=0 if one_mask else first)
                keep = tuple(mask.expand(-1, -1, block.shape[1], -1) for mask in keep)
            blocks.append(engine.outputs(theta, block, keep))
        return torch.cat(blocks, dim=2)

    def outputs(self, x: Any, samples: int = 100) -> Tensor:
        """Return f [E, S, n, O] in the original units of the targets, at the same inputs ``x`` [n, ...] for every member.

        For "input-noise" these are means and log standard deviations, noise precision included.

        In float64, so that the output at a row does not depend on the other rows.
        """
        with default_device(next(iter(self.mean.values())).device):
            members = [self[e].double() for e in range(len(self))]
            return torch.cat([member._outputs_of_one(copied(x).double(), samples) for member in members])

    def log_prob(self, x: Any, y: Any, samples: int = 100, *, draw: int = 0) -> Tensor:
        """Return log p(yᵢ | xᵢ, θₛ) at the same rows for every member, [E, S, n], in the original units of the targets.

        Targets are those of ``Member``. Every number ``draw`` selects other samples θₛ.
        """
        with default_device(next(iter(self.mean.values())).device):
            key = noise.keys(self.seeds, [draw], noise.Stream.EVALUATION)[0]
            x_mean, x_std, y_mean, y_std = (value.unsqueeze(1) for value in self.scaling)
            outputs = outputs_for(self.likelihood, y_mean.shape[-1])
            x, y = rows_of(Member(x, y), None, likelihood=self.likelihood, outputs=outputs)
            weights = next(iter(self.mean.values()))
            f = self.standardised_outputs(((x - x_mean) / x_std).to(weights.dtype), samples, key).double()
            tau = self.noise_precision.double()[:, None, None, None]
            log_p = FORMULAS[self.likelihood].log_density(f, ((y - y_mean) / y_std)[:, None], tau).sum(-1)
            return log_p - y_std.log().sum(-1, keepdim=True)

    def _outputs_of_one(self, x: Tensor, samples: int) -> Tensor:
        key = noise.keys(self.seeds, [0], noise.Stream.PREDICTION)[0]
        x_mean, x_std, y_mean, y_std = self.scaling
        f = self.standardised_outputs((x[None] - x_mean) / x_std, samples, key, one_mask=True)
        if self.likelihood != "input-noise":
            return f * y_std + y_mean
        mean, log_std = f.chunk(2, dim=-1)
        log_std = log_std.clamp(-LOG_NOISE_BOUND, LOG_NOISE_BOUND)
        tau = self.noise_precision[:, None, None, None]
        return torch.cat([mean * y_std + y_mean, log_std + y_std.log() - 0.5 * tau.log()], dim=-1)

    def double(self) -> Stack:
        """Return the stack in float64."""
        return self._with(Tensor.double)

    def _with(self, change: Callable[[Tensor], Tensor]) -> Stack:
        """Return the stack with a function applied to every tensor."""

        def of(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: change(tensor) for name, tensor in value.items()}
            return None if value is None else change(value)

        fields = {name: of(getattr(self, name)) for name in TENSORS}
        return replace(self, **fields, scaling=Scaling(*map(change, self.scaling)))
