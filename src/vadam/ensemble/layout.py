"""Convert between the weights of a network by name and one row of P numbers per member."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]


def shapes_of(network: nn.Module) -> Shapes:
    """Return the shapes of a network's weights by name."""
    return {name: tuple(p.shape) for name, p in network.named_parameters()}


def split(flat: Tensor, shapes: Shapes, samples: int | None = None) -> Weights:
    """Return [E, P] as weights [E, ...] by name; with ``samples``, [E, S·P] as weights [E, S, ...]."""
    lead = () if samples is None else (samples,)
    parts = flat.split([math.prod((*lead, *shape)) for shape in shapes.values()], dim=1)
    return {
        name: part.reshape(len(flat), *lead, *shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def joined(weights: Weights) -> Tensor:
    """Return weights [E, ...] as [E, P]."""
    return torch.cat([value.reshape(len(value), -1) for value in weights.values()], dim=1)
