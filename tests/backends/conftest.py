"""The plain backend with the native backend's noise: what remains between the two is rounding."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

import vadam
from vadam import backends
from vadam.backends.bucket import Bucket
from vadam.backends.noise import NoiseSource, Normal
from vadam.backends.plain import Plain
from vadam.backends.plain_draw import PlainDraw


class NativeNoise(NoiseSource):
    """Noise of the native backend for the buckets that its loops take, torch's for the others."""

    def __init__(self, buckets: list[Bucket], noise: NoiseSource) -> None:
        super().__init__(None)
        native = backends.choose("native").draw(buckets, noise, 1.0, keep_mean=False)
        rest = [] if native.other is None else native.other.buckets
        self._rest = {part.params[0]: i for i, part in enumerate(rest)}
        self._parts = [part for bucket in buckets for part in bucket.parts()]
        native.other = None
        self._eps, self._noise = native.noise(), noise

    def normal(self, index: int, device: torch.device, dtype: torch.dtype) -> Normal:
        """Return a function that hands out the noise of a bucket from its start."""
        part = self._parts[index]
        if part.params[0] in self._rest:
            return self._noise.normal(self._rest[part.params[0]], device, dtype)
        (left,) = part.gather([self._eps[p] for p in part.params])

        def following(n: int) -> Tensor:
            nonlocal left
            first, left = left[:n], left[n:]
            return first

        return following


class PlainWithNativeNoise(Plain):
    """Draws what the native backend would draw from the same seed."""

    def draw(self, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool) -> PlainDraw:
        """Return a sample of the weights."""
        return super().draw(buckets, NativeNoise(buckets, noise), sign, keep_mean=keep_mean)


@pytest.fixture
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let backend="plain" draw the noise of backend="native"."""
    pytest.importorskip("llvmlite")
    real, plain = vadam.backends.choose, PlainWithNativeNoise()
    monkeypatch.setattr(vadam.backends, "choose", cache(lambda name: plain if name == "plain" else real(name)))
