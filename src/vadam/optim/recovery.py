"""Steps and samples that end early: after an exception, an interruption, or because they are given up."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from vadam.backends.bucket import Grads
from vadam.backends.noise import NoiseSource, Seeds
from vadam.interrupts import Uninterrupted
from vadam.optim.posterior import PosteriorOptimizer
from vadam.optim.sample import Owner

if TYPE_CHECKING:
    from vadam.optim.sample import Sample


class Recovery(PosteriorOptimizer):
    """An optimizer that returns to the mean, whatever happened in a sample or a step."""

    _holder: weakref.ref[Any] | None  # lives as long as the block or closure call that opened the sample
    _unpaired: NoiseSource | None  # of an antithetic pair's first half
    _seeds: Seeds | None  # of the samples of a closure
    _base: Grads  # gradients that were there before a closure with several samples

    if TYPE_CHECKING:

        def _captured(self, sample: Sample) -> Grads | None: ...

    def _drop_sample(self) -> None:
        """End a sample that failed: it leaves no trace."""
        with Uninterrupted():
            sample = self._weights.sample
            self._weights.reset()
            if sample is not None:
                self._captured(sample)
                self._unpaired = sample.unpaired_before
            self._estimate.unstash_grads()

    def _drop_step(self) -> None:
        """End a step that failed."""
        with Uninterrupted():
            self._drop_sample()
            self._reset_step()

    def _heal(self) -> None:
        """Drop the sample of a block or closure that was left while its clean-up was interrupted."""
        owner, holder = self._weights.owner, self._holder
        if owner in (Owner.CONTEXT, Owner.CLOSURE) and (holder is None or holder() is None):
            self._drop_sample() if owner is Owner.CONTEXT else self._drop_step()

    def _reset_step(self) -> None:
        """Start a step afresh: no sample, no estimate, the parameters hold the mean."""
        if (
            self._estimate.is_empty
            and self._weights.is_idle
            and not (self._holder or self._unpaired or self._from_loop)
        ):
            return
        with Uninterrupted():
            self._weights.reset()
            self._holder, self._unpaired, self._seeds, self._base, self._from_loop = None, None, None, {}, False
            self._estimate.reset()


class ClosureCall:
    """A marker that lives as long as a call of ``step(closure)``: once it is gone, the call has ended."""
