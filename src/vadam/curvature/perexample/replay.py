"""Run a layer again as explicit linear maps, to get the gradients at their outputs.

A recurrent layer or an attention layer is one call from outside and many linear maps inside. The per-example gradient
of a linear map has a closed form, given its input and the gradient z at its output. The rule for such a layer
computes the layer's output again, with every linear map applied by a ``LinearMaps``. One more backward pass gives z.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import get_device_states, set_device_states

from vadam.curvature.perexample.call import WAY_OUT, Call
from vadam.curvature.perexample.gradients import Added, Gradients, Outer, summed

# Relative tolerances (half precision, float32): far above rounding, far below the effect of one dropped unit in a hundred.
SAME_ROUNDED, SAME = 0.05, 2e-3


class AppliedMap(NamedTuple):
    """A linear map as it was applied: its key, input and output."""

    key: str
    a: Tensor  # input
    z: Tensor  # output, at which the gradient is needed


class LinearMaps:
    """Apply linear maps to batch-first inputs [B, T, I] or [B, I], and record them under the given keys."""

    def __init__(self) -> None:
        self.applied: list[AppliedMap] = []

    def __call__(self, key: str, a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        z = F.linear(a, weight, bias)
        if not z.requires_grad:
            z.requires_grad_()
        self.applied.append(AppliedMap(key, a.detach(), z))
        return z

    def gradients(self, call: Call, outputs: Sequence[Tensor]) -> tuple[dict[str, Gradients], dict[str, Gradients]]:
        """Return per-example gradients of the weights and of the biases, by key, given the replayed outputs."""
        check_same(call, outputs, call.outputs)
        arrived = [(y, call.cast(grad)) for y, grad in zip(outputs, call.output_grads, strict=True) if grad is not None]
        at_outputs = torch.autograd.grad(
            [y for y, _ in arrived],
            [applied.z for applied in self.applied],
            [grad for _, grad in arrived],
            materialize_grads=True,
        )
        weights: dict[str, list[Gradients]] = {}
        biases: dict[str, list[Gradients]] = {}
        for (key, a, _), z in zip(self.applied, at_outputs, strict=True):
            if z.ndim == 2:
                a, z = a.unsqueeze(1), z.unsqueeze(1)
            weights.setdefault(key, []).append(Outer(z, a))
            biases.setdefault(key, []).append(Added(z))
        return {key: summed(uses) for key, uses in weights.items()}, {key: summed(uses) for key, uses in biases.items()}


def check_same(call: Call, replayed: Sequence[Tensor], recorded: Sequence[Tensor]) -> None:
    """Raise RuntimeError if the replay gave other outputs than the recorded call.

    On an accelerator only shapes are compared: reading values would stall the device.
    """
    tolerance = SAME_ROUNDED if call.is_rounded else SAME
    for index, (new, old) in enumerate(zip(replayed, recorded, strict=True)):
        has_values = old.device.type == "cpu" and call.is_intact(index) and bool(old.isfinite().all())
        if new.shape != old.shape or (has_values and not (new - old).norm() <= tolerance * old.norm()):
            raise RuntimeError(
                f"{call.layer} gives another output when it runs again, one example at a time: it draws random numbers, "
                f"keeps state, or mixes the examples. Put its parameters in a small module of their own, {WAY_OUT}"
            )


def random_state(args: Any) -> Any:
    """Return the state of all generators that a call with these arguments may draw from."""
    return torch.get_rng_state(), get_device_states(*args)


@contextmanager
def restored(state: Any) -> Iterator[None]:
    """Draw the same random numbers as the original call, and restore the generators afterwards."""
    if state is None:
        yield
        return
    host, (devices, states) = state
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(host)
        set_device_states(devices, states)
        yield
