"""Standard normal noise of one sample, from the user's generator or torch's default one.

A sample draws one seed on the host, and every bucket's noise follows from it: it can be drawn again, bucket by bucket. On another
device than the generator's that seed seeds a generator of the device; noise on the device's own generator is drawn from it directly,
so that nothing is read from the device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

Normal = Callable[[int], Tensor]
"""Draw the next n numbers."""


def several_ranks() -> bool:
    """Return True if several processes train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class Seeds:
    """The seeds of some samples, drawn from the generator together when the first is used, and hashed with the rank."""

    def __init__(self, generator: torch.Generator | None, count: int) -> None:
        self._generator, self._count = generator, count
        self._left: list[int] = []

    def next(self) -> int:
        """Return the seed of the next sample."""
        if not self._left:
            device = "cpu" if self._generator is None else self._generator.device
            drawn = torch.randint(1 << 62, (self._count,), generator=self._generator, device=device).tolist()
            self._left = [_hash(seed, dist.get_rank()) for seed in drawn] if several_ranks() else drawn
            self._left.reverse()
        return self._left.pop()


class NoiseSource:
    """The noise of one sample; ``replay`` lets noise of a device's own generator be drawn again, too."""

    def __init__(self, generator: torch.Generator | None, *, replay: bool = False, seeds: Seeds | None = None) -> None:
        self._generator, self._replay, self._seeds = generator, replay, seeds or Seeds(generator, 1)
        self._states: dict[int, Tensor] = {}  # of the device's generator, before the noise of a bucket
        self._seed: int | None = None

    @property
    def seed(self) -> int:
        """Return the seed of this sample, drawn at the first use."""
        if self._seed is None:
            self._seed = self._seeds.next()
        return self._seed

    def normal(self, index: int, device: torch.device, dtype: torch.dtype) -> Normal:
        """Return a function that draws the noise of a bucket; called again, it draws the same numbers."""
        generator = self._of_bucket(index, device)
        return lambda n: torch.randn(n, device=device, dtype=dtype, generator=generator)

    def _of_bucket(self, index: int, device: torch.device) -> torch.Generator | None:
        given = self._generator
        elsewhere = given is not None and given.device.type != device.type
        if device.type == "cpu" or elsewhere or several_ranks():
            return torch.Generator(device).manual_seed(_hash(self.seed, index))
        if index in self._states:
            again = torch.Generator(device)
            again.set_state(self._states[index])
            return again
        if self._replay:
            own = given if given is not None else torch.cuda.default_generators[device.index or 0]
            self._states[index] = own.get_state()
        return given


def _hash(*numbers: int) -> int:
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2
