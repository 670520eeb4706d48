"""A step from gradients that were taken before it: in ``sampled_params()`` or by an attached model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from vadam.backends.bucket import Grads
from vadam.optim.attach import AttachedUse
from vadam.optim.estimate import gradients
from vadam.optim.sample import Owner

if TYPE_CHECKING:
    from vadam.optim.sample import Sample


class GradientSteps(AttachedUse):
    """An optimizer whose ``step()`` uses the gradients in ``p.grad``."""

    _from_loop: bool  # True if a loop opened a sample of this step

    if TYPE_CHECKING:

        def _count(self, sample: Sample, owner: Owner, *, settled: bool, last: bool) -> None: ...
        def _update(self, g: Grads, overflow: Tensor | None = None) -> None: ...

    def _step_from_grads(self) -> None:
        """Update by the gradients of the samples since the last step. To be called where signals wait."""
        looped = self._weights.sample is not None or self._weights.paused is not None or self._from_loop
        try:
            if self._weights.sample is not None:
                self._close_sample(restore=False)  # the update may read the mean from where it is kept
            elif self._weights.paused is not None:
                self._count(self._weights.paused, Owner.LOOP, settled=True, last=True)
            overflow: Tensor | None = getattr(self, "found_inf", None)
            if overflow is not None and overflow.is_cpu and bool(overflow):
                return self._skip()
            self._unscale()
            grads = gradients(self._trained())
            if not grads:
                raise RuntimeError("step() without a gradient: call backward() first")
            if not self._estimate.count and self._is_checkpoint_probe(grads):
                return None
            if not self._estimate.count and self._sampled():
                raise RuntimeError(
                    "step() without a sample: the gradient was taken at the mean. Call step(closure), or take it inside "
                    "`with opt.sampled_params():`, or call opt.attach(model) once before training; a copied or unpickled optimizer is "
                    "not attached"
                )
            if looped and 0 < self._estimate.count < self.samples:
                raise RuntimeError(
                    f"samples={self.samples!r}, but {self._estimate.count} forward and backward passes were made since the last "
                    f"step: make {self.samples} before step(), one for each sample, or build the optimizer with samples=1"
                )
            if looped and self._estimate.count > self.samples > 1:
                raise RuntimeError(
                    f"samples={self.samples!r}, but {self._estimate.count} forward and backward passes were made since the last "
                    f"step: each is a sample, and gradients are averaged over them. To accumulate micro-batches, build the optimizer "
                    f"with samples=1, or take each sample inside `with opt.sampled_params():`"
                )
            self._update(grads, overflow)
        except BaseException:
            for left_by_scaler in ("found_inf", "grad_scale"):
                self.__dict__.pop(left_by_scaler, None)
            raise
        finally:
            self._reset_step()
        return None
