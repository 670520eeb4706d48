"""The minibatches of a chunk of members, in a new order every epoch; the last, smaller minibatch is kept.

Members of different length share the steps: one that has finished gets empty minibatches, which change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vadam.ensemble import noise

Schedule = Callable[[int, int], float]

FLOATS_A_BLOCK = 2**18


def cosine(t: int, T: int) -> float:
    """Return a schedule from 1 to 0 along half a cosine, whose last steps average out the noise."""
    return 0.5 * (1 + math.cos(math.pi * t / T))


class Batch(NamedTuple):
    """One step of E members."""

    x: Tensor  # [E, M, ...]
    y: Tensor  # [E, M, O]
    weight: Tensor  # [E, M], of every example; 0 for padding; their sum is 1 where all examples weigh the same
    size: Tensor  # [E], how many of the M examples are real; 0 if the member has finished
    key: Tensor  # [E, 2], of the step's noise
    alpha: Tensor  # [E], learning rate


class Rows(NamedTuple):
    """The standardised training rows of E members, end to end."""

    x: Tensor
    y: Tensor
    weight: Tensor  # with mean 1 over a member's rows
    counts: list[int]


class Order:
    """Row numbers of one member's minibatches, in turn."""

    def __init__(self, count: int, batch_size: int, steps: int, seed: int) -> None:
        self._count, self._batch_size, self._left = count, batch_size, steps
        self._rng = np.random.default_rng([seed % 2**64, 1])
        self._ready = np.empty((0, batch_size), dtype=np.int64)
        self._sizes = np.full(-(-count // batch_size), batch_size)
        self._sizes[-1] = count - (len(self._sizes) - 1) * batch_size
        self._position = 0

    def take(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return row numbers [steps, M], padded with 0, and the sizes of the minibatches; zeros at the end."""
        todo = min(steps, self._left)
        while len(self._ready) < todo:
            epoch = np.zeros(len(self._sizes) * self._batch_size, dtype=np.int64)
            epoch[: self._count] = self._rng.permutation(self._count)
            self._ready = np.concatenate([self._ready, epoch.reshape(-1, self._batch_size)])
        rows = np.zeros((steps, self._batch_size), dtype=np.int64)
        sizes = np.zeros(steps, dtype=np.int64)
        rows[:todo] = self._ready[:todo]
        sizes[:todo] = self._sizes[(self._position + np.arange(todo)) % len(self._sizes)]
        self._ready = self._ready[todo:]
        self._position += todo
        self._left -= todo
        return rows, sizes


def minibatches(
    rows: Rows,
    *,
    steps: list[int],
    seeds: list[int],
    lr: list[float],
    batch_size: int,
    schedule: Schedule | None,
    stream: noise.Stream,
) -> Iterator[Batch]:
    """Yield one batch for each step; the row numbers of many steps are drawn and gathered at once."""
    E, dtype = len(steps), rows.x.dtype
    orders = [Order(n, batch_size, T, seed) for n, T, seed in zip(rows.counts, steps, seeds, strict=True)]
    offsets = np.cumsum([0, *rows.counts[:-1]])[None, :, None]
    per_block = max(1, FLOATS_A_BLOCK // (E * batch_size * max(1, rows.x[0].numel())))
    for start in range(0, max(steps), per_block):
        block = range(start, min(start + per_block, max(steps)))
        taken = [order.take(len(block)) for order in orders]
        index = torch.from_numpy(np.stack([r for r, _ in taken], axis=1) + offsets)
        size = torch.from_numpy(np.stack([s for _, s in taken], axis=1)).to(dtype)
        x, y, weight = (
            values.index_select(0, index.flatten()).unflatten(0, index.shape)
            for values in (rows.x, rows.y, rows.weight)
        )
        real = torch.arange(batch_size) < size[..., None]
        weight = weight * real / size.clamp_min(1)[..., None]
        key = noise.keys(seeds, block, stream)
        alpha = torch.tensor(
            [[a * (schedule(t, T) if schedule else 1.0) for a, T in zip(lr, steps, strict=True)] for t in block],
            dtype=dtype,
        )
        yield from (Batch(x[i], y[i], weight[i], size[i], key[i], alpha[i]) for i in range(len(block)))
