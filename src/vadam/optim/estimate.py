"""The Monte-Carlo estimates ĝ and ĥ of one step: means over its samples.

ĝ lives in ``p.grad``, where loss scaling, clipping and accumulation expect it: after s samples ``p.grad`` holds the mean of
their s gradients. ĥ is the mean of each sample's own ĥ. With one sample ĥ is computed at the very end, from the gradient as
it then is; what had to be computed earlier is rescaled by what happened to the gradient's norm since, so that unscaling and
norm clipping act on ĥ as they would have acted on the loss. Factors stay on the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ClassVar, Protocol

from torch import Tensor
from torch._C import TensorBase

from vadam.backends import Backend
from vadam.backends.bucket import Gradients, Grads, are_same
from vadam.optim.averages import BothMeans, copies, running_means
from vadam.optim.gradient_marks import GradientMarks
from vadam.optim.rescaling import Norms, rescaled, scaling_factors
from vadam.optim.sample import Sample

_is_sparse = TensorBase.is_sparse.__get__  # type: ignore[attr-defined]


class Estimator(Protocol):
    """Describes how an optimizer estimates its curvature.

    ĥ of sampled weights grows with the gradient to the power ``curvature_degree``.
    """

    curvature_degree: ClassVar[int]
    supports_deterministic: bool

    @property
    def _backend(self) -> Backend: ...
    def _curvatures(self, sample: Sample, grads: Grads) -> Grads: ...
    def _norms(self, *kinds: Grads) -> list[Norms]: ...


class Estimate:
    """Accumulates the gradients and curvatures of a step's samples."""

    def __init__(self, optimizer: Estimator) -> None:
        self._optimizer: Estimator = weakref.proxy(optimizer)  # no cycle: a dropped optimizer is freed at once
        self.reset()

    def reset(self) -> None:
        """Start a new step."""
        self.count = 0
        self.last: Sample | None = None  # the last sample that counts
        self._h: Grads | None = None  # ĥ, where it had to be computed before the end
        self._stashed: Grads = {}  # the mean gradient of earlier samples, while the next one is taken
        self._means: Grads = {}  # gradients that are our own: means over samples
        self._both = BothMeans(self._optimizer)
        self._before: Norms | None = None  # norms of the gradients that ĥ belongs to; None: those of the update
        self._marks: GradientMarks | None = None  # of the gradients that the last sample left

    @property
    def has_curvatures(self) -> bool:
        """True if the curvatures ĥ of earlier samples were already computed."""
        return self._h is not None

    @property
    def is_empty(self) -> bool:
        """True if no sample counts yet."""
        return self.last is None and self._marks is None

    @property
    def needs_norms(self) -> bool:
        """True if ``scale`` depends on the norms of the gradients."""
        return self._h is not None and self._before is not None

    def stash_grads(self, params: list[Tensor], base: Grads) -> None:
        """Put the mean gradient aside before a further sample, so that ``p.grad`` receives that sample's gradient."""
        if self._marks is not None and self._marks.all_are_cleared():
            self.reset()  # the samples were meant for a step that was never taken
        if self.last is None:
            return
        if not self._stashed:
            self._stash(self.last, gradients(params))
        begun = dict(zip(base, copies(base.values()), strict=True)) if base else base
        for p in params:
            p.grad = begun.get(p) if begun else None

    def _stash(self, last: Sample, g: Grads) -> None:
        if self._before is not None or self.count == 1:  # what was recorded leaves deterministic weights out
            recorded: Grads = {} if self._h is None else self._h
            if self._before is not None:
                recorded = self._rescaled(recorded, self._before, g)
            self._h = self._optimizer._curvatures(last, g) | recorded
            self._before = None
        # The next gradient may be written to the same memory, as in buckets of DDP.
        own = are_same(g.values(), self._means.values())
        foreign = {} if own else {p: x for p, x in g.items() if self._means.get(p) is not x}
        self._stashed = {**g, **dict(zip(foreign, copies(foreign.values()), strict=True))} if foreign else g

    def unstash_grads(self) -> None:
        """Let ``p.grad`` hold the mean gradient of the samples so far."""
        for p, g in self._stashed.items():
            p.grad = g
        self._stashed = {}

    def add(self, sample: Sample, params: list[Tensor], captured: Grads | None, *, settled: bool, last: bool) -> bool:
        """Add a sample; return False if it has no gradient and does not count.

        ``captured``: the curvatures that were recorded during its backward pass. ``settled``: nobody else has the gradients until
        the update or the next sample. ``last``: the update follows at once.
        """
        if not sample.has_new_gradient():
            self.unstash_grads()
            return False
        self.count += 1
        self.last = sample
        if captured is not None and self.count == 1:
            self._h = captured
            self._before = sample.norms
        elif captured is not None or self.count > 1:
            g = gradients(params)
            if captured is not None or not self._both.add(self._stashed, self._h, g, self.count):
                h = self._optimizer._curvatures(sample, g)
                if captured is not None:
                    h |= captured if sample.norms is None else self._rescaled(captured, sample.norms, g)
                earlier = [h if self._h is None else self._h, self._stashed]
                self._h, self._stashed = running_means(earlier, [h, g], self.count)
            self._means = self._stashed
            self._before = None
            if last or not settled:
                self.unstash_grads()
        if self._h is not None and not settled and self._before is None:
            self.expect_scaling(params)
        self._marks = None if settled else GradientMarks(params)
        return True

    def expect_scaling(self, params: list[Tensor]) -> None:
        """Store the norms of the gradients before the user may clip or unscale them."""
        if self._h is not None and self._before is None:
            (self._before,) = self._optimizer._norms(gradients(params))

    def curvatures(self, g: Grads) -> Grads:
        """Return ĥ for the gradient as it is now, up to the factors of ``scale``."""
        assert self.last is not None
        return self._optimizer._curvatures(self.last, g) if self._h is None else self._h

    def _rescaled(self, h: Grads, before: Norms, g: Grads) -> Grads:
        """Return ĥ scaled as the gradients were scaled since their norms were ``before``."""
        return rescaled(h, before, self._optimizer._norms(g)[0], self._degrees())

    def scale(self, norms: Norms) -> Grads | None:
        """Return a factor of each ĥ, given the norms of the gradient as it is now; None for 1."""
        if self._h is None or self._before is None:
            return None
        return scaling_factors(self._h, self._before, norms, self._degrees())

    def _degrees(self) -> Callable[[Tensor], int]:
        """Return the power of the gradient with which the curvature of a parameter grows: 2 for ĝ∘ĝ of a deterministic one."""
        assert self.last is not None
        degree, sampled = self._optimizer.curvature_degree, {*self.last.params}
        return lambda p: degree if p in sampled else 2


def gradients(params: list[Tensor]) -> Grads:
    """Return the gradients of the parameters that have one."""
    grads = Gradients({p: g for p in params if (g := p.grad) is not None})
    if True in map(_is_sparse, grads.values()):
        raise RuntimeError("sparse gradients are not supported: build the embedding with sparse=False")
    return grads
