"""Optimizers whose ĥ is the mean of squared per-example gradients, recorded by hooks on the layers of an attached model."""

from __future__ import annotations

from typing import Any, Self, cast

from torch import Tensor, nn

from vadam import curvature
from vadam.backends.bucket import Grads
from vadam.backends.shards import is_sharded
from vadam.optim.base import VariationalOptimizer
from vadam.optim.distributed import unwrapped
from vadam.optim.sample import Owner, Sample


class PerExampleOptimizer(VariationalOptimizer):
    """Records per-example squares during the backward pass; needs ``attach(model)`` once, so that its hooks see the layers."""

    records_curvature = True
    _squares: curvature.PerExampleSquares | None = None

    def attach(self, model: nn.Module, *, sequence_first: bool | None = None) -> Self:
        """Attach the model, and put hooks on its layers that record per-example squares.

        ``sequence_first``: True if layers see [T, B, ...] rather than [B, T, ...]; torch's own recurrent layers and transformers
        say it themselves.
        """
        if isinstance(model, nn.Module) and any(is_sharded(p) for p in model.parameters()):
            raise ValueError(
                f"attach(): {type(self).__name__}'s per-example squares need the layers whole, and FSDP2 shards them: use "
                f"DistributedDataParallel, or Vadam, which is sharded"
            )
        super().attach(model)
        sampled: list[Any] = self._sampled()
        points: list[Any] = self._points()
        try:
            self._squares = curvature.PerExampleSquares(
                unwrapped(model), params=sampled, exclude=points, sequence_first=sequence_first
            )
        except BaseException:
            self.detach()
            raise
        return self

    def detach(self) -> None:
        """Undo ``attach``."""
        super().detach()
        if self._squares is not None:
            self._squares.remove()
        self._squares = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients and the squares that belong to them."""
        super().zero_grad(set_to_none)
        if self._squares is not None:
            self._squares.discard()

    def _open_sample(self, owner: Owner) -> Sample:
        if self._squares is None:
            raise RuntimeError(
                f"{type(self).__name__} needs the layers to see per-example gradients: call opt.attach(model) once before "
                f"training"
            )
        sample = super()._open_sample(owner)
        self._squares.recording = True
        return sample

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        return super()._curvatures(sample, {p: grads[p] for p in self._points() if p in grads})

    def _captured(self, sample: Sample) -> Grads | None:
        if self._squares is None:
            return None
        self._squares.recording = False
        return cast(Grads, self._squares.take())

    def _points(self) -> list[Tensor]:
        return [p for group in self.param_groups if group["deterministic"] for p in group["params"]]
