"""How a rule runs over the weights: one small protocol, three ways.

- ``plain``: torch's own operators on vectors; any device, any dtype. The reference.
- ``native``: loops for float32 on the CPU, compiled by LLVM from the rule; other tensors are left to ``plain``.
- ``compiled``: ``plain`` through ``torch.compile``.

``auto`` is native where llvmlite is installed, otherwise plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from torch import Tensor

from vadam.backends.bucket import Bucket, Grads
from vadam.backends.noise import NoiseSource

NAMES = ("auto", "plain", "native", "compiled")


class Draw(Protocol):
    """A backend's part of a sample: it perturbs the weights, restores the mean and replays the noise."""

    buckets: list[Bucket]

    def perturb(self) -> None: ...
    def redraw(self, noise: NoiseSource, sign: float) -> bool: ...
    def restore(self, *, keep_sample: bool = False) -> None: ...
    def mean_of(self, p: Tensor) -> Tensor | None: ...
    def products(self, grads: Grads) -> Grads: ...
    def noise(self) -> Grads: ...


class Moments(Protocol):
    """Means of gradients and of their squares, over the samples so far."""

    def add(self, grads: Sequence[Tensor], weight: float) -> None: ...


class Backend(Protocol):
    """Runs a rule over buckets of weights."""

    def draw(self, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool) -> Draw: ...

    def update(
        self,
        buckets: list[Bucket],
        grads: Grads,
        curvatures: Grads,
        *,
        draw: Any = None,
        scale: Grads | None = None,
        accept: Tensor | None = None,
    ) -> None: ...

    def first_above(self, bound: float, kinds: Sequence[Grads]) -> int | None: ...

    def norms(self, tensors: Sequence[Tensor]) -> Tensor: ...

    def precision(self, bucket: Bucket) -> Tensor: ...

    def moments(self, means: Sequence[Tensor], squares: Sequence[Tensor]) -> Moments | None: ...


@cache
def has_native() -> bool:
    """Return True if native loops can be compiled here."""
    try:
        import llvmlite.binding  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


@cache
def choose(name: str) -> Backend:
    """Return the backend of a name."""
    if name == "native" and not has_native():
        raise ImportError("backend='native' needs llvmlite: pip install llvmlite")
    if name in ("auto", "native") and has_native():
        from vadam.backends.native import Native

        return Native()
    if name == "compiled":
        from vadam.backends.compiled import Compiled

        return Compiled()
    from vadam.backends.plain import Plain

    return Plain()
