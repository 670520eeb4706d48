"""Gradients and curvatures that are not finite: refused at once on the CPU, one step later on other devices.

There the update is masked by a flag on the device, so that nothing waits for it; the flag travels to the host meanwhile and is looked at
in the next step. Weights and state are untouched by a refused step.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch._C import TensorBase

from vadam.backends.bucket import Bucket, Grads
from vadam.optim.estimate import Estimate
from vadam.optim.rescaling import Norms
from vadam.optim.rule_optimizer import RuleOptimizer
from vadam.optim.sample import Owner
from vadam.rules.binding import scope

is_cpu = TensorBase.is_cpu.__get__  # type: ignore[attr-defined]


@cache
def limit(num_data: float, dtype: torch.dtype) -> float:
    """Return the largest norm of a gradient that a thousand steps can add up without an overflow of the precision."""
    return math.sqrt(torch.finfo(dtype).max / (1e6 * max(1.0, num_data)))


class PendingCheck:
    """The flags of a step on their way to the host, and the scalars of the state before that step."""

    def __init__(
        self, norms_of: dict[str, Norms], bound: float, overflow: Tensor | None, buckets: list[Bucket]
    ) -> None:
        vectors = [(kind, params, values) for kind, norms in norms_of.items() for params, values in norms.vectors]
        self._params = [(kind, p) for kind, params, _ in vectors for p in params]
        device = next(values.device for _, _, values in vectors if not is_cpu(values))
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
            self._values = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def values(self) -> list[bool]:
        """Return for each tensor whether it was finite, waiting for the copy from the device; True where tensors have no values."""
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


class Verdict(NamedTuple):
    """The result of checking a step before its update: refused or not, a flag on the device, norms if asked for."""

    refused: bool
    accept: Tensor | None = None
    norms: Norms | None = None


class CheckedOptimizer(RuleOptimizer):
    """An optimizer that refuses or skips steps whose gradient or curvature is not finite, or whose scaled loss has overflowed."""

    #: True if GradScaler may leave unscaling and the decision about an overflow to ``step``.
    handles_overflow: bool = True

    nonfinite: str
    _skipped: int
    _pending: PendingCheck | None
    _estimate: Estimate

    if TYPE_CHECKING:

        def _name(self, p: Tensor) -> str: ...

    def _judge(self, kinds: dict[str, Grads], overflow: Tensor | None, *, with_norms: bool) -> Verdict:
        """Check gradients and curvatures: at once on the CPU, by a flag on other devices."""
        self._settle()
        bound = bound_of(self.param_groups)
        on_cpu = False not in map(is_cpu, chain.from_iterable(map(dict.values, kinds.values())))
        found = [] if on_cpu and not with_norms else self._norms(*kinds.values())
        norms = found[0] if found else None
        if not on_cpu:
            self._pending = PendingCheck(
                dict(zip(kinds, found, strict=True)), bound, overflow, self._buckets([*kinds["gradient"]])
            )
            return Verdict(False, self._pending.accept, norms)
        bad = self._backend.first_above(bound, [*kinds.values()])
        if bad is not None:
            self._refuse(*[(kind, p) for kind, of_kind in kinds.items() for p in of_kind][bad])
        return Verdict(bad is not None, None, norms)

    def _norms(self, *kinds: Grads) -> list[Norms]:
        """Return the norms of the parameters' gradients, curvatures, ..., on their devices: one call for all on a device."""
        entries = [(kind, p, x) for kind, tensors in enumerate(kinds) for p, x in tensors.items() if x.numel()]
        devices = {x.device for _, _, x in entries}
        found: list[list[tuple[list[Tensor], Tensor]]] = [[] for _ in kinds]
        for device in devices:
            here = entries if len(devices) == 1 else [entry for entry in entries if entry[2].device == device]
            values = self._backend.norms([x for _, _, x in here])
            params = [[p for of, p, _ in here if of == kind] for kind in range(len(kinds))]
            for kind, part in enumerate(values.split([len(some) for some in params])):
                if params[kind]:
                    found[kind].append((params[kind], part))
        return [Norms(vectors) for vectors in found]

    def _refuse_missing(self, g: Grads, h: Grads) -> None:
        """Raise if a sampled parameter has a gradient and no curvature."""
        if self.supports_deterministic or scope(self.rule) == "model":
            return
        for group, p in self._grouped():
            if p in g and p not in h and not group["deterministic"]:
                raise RuntimeError(
                    f"no curvature was recorded for {self._name(p)}, which has a gradient: it must be used by a layer of the "
                    f"attached model, or belong to a group with deterministic=True. If it was frozen when the model was attached, "
                    f"call opt.attach(model) again"
                )

    def _refuse(self, kind: str, p: Tensor) -> None:
        self._refuse_negative_precision()
        if self.nonfinite == "skip":
            self._skip()
            return
        raise FloatingPointError(
            f"the {kind} of {self._name(p)} is not finite, or so large that its square overflows. The step was refused, nothing has "
            f"changed: lower lr, clip the gradients, or pass nonfinite='skip' to skip such steps and count them in opt.skipped_steps"
        )

    def _refuse_negative_precision(self) -> None:
        """Raise if the samples are NaN because N s + λ is negative for the arguments as they are now: no later step would be accepted."""
        if scope(self.rule) == "model":  # FullVON looks at its whole covariance
            return
        for p, precision in self._precisions(self._sampled()):
            if not bool((precision >= 0).all()):
                raise FloatingPointError(
                    f"the precision of {self._name(p)} is not positive: {type(self).__name__}'s curvature may be negative, and num_data, "
                    f"data_weight or prior_precision was changed since it was learned. The step was refused: set them as before, change "
                    f"them before the first step, or use Vadam or VOGN, whose curvature is never negative"
                )

    def _settle(self) -> None:
        """Look at the flags of the last step on a device; raise if it was refused."""
        pending, self._pending = self._pending, None
        if pending is not None:
            overflow, bad = pending.settle()
            if overflow:
                self._skip()
            elif bad is not None:
                self._refuse(*bad)

    def _skip(self) -> None:
        self._skipped += 1

    @property
    def skipped_steps(self) -> int:
        """Return the number of steps that were skipped because a gradient was not finite."""
        self._settle()
        return self._skipped

    @skipped_steps.setter
    def skipped_steps(self, number: int) -> None:
        self._settle()
        self._skipped = number

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """True if GradScaler leaves an overflow to ``step``: while there is a sample to be dropped."""
        return self.handles_overflow and (self._weights.owner is Owner.LOOP or self._estimate.count > 0)

    def _unscale(self) -> None:
        """Undo the loss scaling that GradScaler has left to us."""
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            params = self._trained()
            self._estimate.expect_scaling(params)
            for device in {p.device for p in params if p.grad is not None}:
                grads = [p.grad for p in params if p.grad is not None and p.device == device]
                torch._foreach_div_(grads, scale.to(device))
