"""Gradients and curvatures that are not finite: refused at once on the CPU, one step later on other devices.

There the update is masked by a flag on the device, so that nothing waits for it; the flag travels to the host meanwhile and is looked at
in the next step. Weights and state are untouched by a refused step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket
from vadam.optim.estimate import Norms


class Check(NamedTuple):
    """Norms of one kind of tensor that have to stay below a limit."""

    kind: str
    norms: Norms


def limit(num_data: float, dtype: torch.dtype) -> float:
    """Return the largest norm of a gradient that a thousand steps can add up without an overflow of the precision."""
    return math.sqrt(torch.finfo(dtype).max / (1e6 * max(1.0, num_data)))


def first_bad(checks: list[Check], bound: float) -> tuple[str, Tensor] | None:
    """Return kind and parameter of the first norm on the CPU that is not below the bound."""
    for kind, norms in checks:
        for params, values in norms.vectors:
            fine = values < bound
            if not bool(fine.all()):
                return kind, params[int(fine.logical_not().nonzero()[0])]
    return None


class PendingCheck:
    """The flags of a step on their way to the host, and the scalars of the state before that step."""

    def __init__(self, checks: list[Check], bound: float, overflow: Tensor | None, buckets: list[Bucket]) -> None:
        vectors = [(kind, params, values) for kind, norms in checks for params, values in norms.vectors]
        self._params = [(kind, p) for kind, params, _ in vectors for p in params]
        device = next(values.device for _, _, values in vectors if not values.is_cpu)
        norms = [values if values.device == device else values.to(device) for _, _, values in vectors]
        flags = (norms[0] if len(norms) == 1 else torch.cat(norms)) < bound
        self._may_overflow = overflow is not None
        if overflow is not None:
            flags = torch.cat([flags, overflow.reshape(1) == 0])
        self.accept = flags.all()
        self._flags = _Fetched(flags)
        self._scalars = [(bucket, bucket.scalars()) for bucket in buckets]

    def settle(self) -> tuple[bool, tuple[str, Tensor] | None]:
        """Return whether loss scaling had overflowed, and kind and parameter of the first tensor that was not finite.

        If the step was refused, the scalars of the state become those before it.
        """
        fine = self._flags.values()
        overflow = self._may_overflow and not fine[-1]
        bad = next((named for named, ok in zip(self._params, fine, strict=False) if not ok), None)
        if overflow or bad is not None:
            for bucket, scalars in self._scalars:
                bucket.set_scalars(scalars)
        return overflow, bad


class _Fetched:
    """Values that are copied to the host while the device goes on computing."""

    def __init__(self, values: Tensor) -> None:
        self._event: Any = None
        self._values = values
        if values.is_cuda and torch.cuda.is_available():
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def values(self) -> list[bool]:
        """Return the values; tensors without values, as in fake modes, count as fine."""
        if self._event is not None:
            self._event.synchronize()
        elif self._values.is_cuda or self._values.is_meta:
            return [True] * len(self._values)
        return [bool(value) for value in self._values.tolist()]


def bound_of(groups: list[dict[str, Any]]) -> float:
    """Return the limit of the norms in an optimizer's groups."""
    dtypes = {p.dtype for group in groups for p in group["params"]}
    narrow = torch.float64 if dtypes == {torch.float64} else torch.float32
    return limit(max([group["num_data"] for group in groups]), narrow)
