"""The Monte-Carlo estimates ĝ and ĥ of one step: means over its samples.

ĝ lives in ``p.grad``, where loss scaling, clipping and accumulation expect it: after s samples ``p.grad`` holds the mean of
their s gradients. ĥ is the mean of each sample's own ĥ. With one sample ĥ is computed at the very end, from the gradient as
it then is; what had to be computed earlier is rescaled by what happened to the gradient's norm since, so that unscaling and
norm clipping act on ĥ as they would have acted on the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vadam.optim.sample import GradientMarks, Sample

Grads = dict[Tensor, Tensor]
Curvatures = Callable[[Sample, Grads], Grads]
Norms = dict[Tensor, float]


class Estimate:
    def __init__(self, degree: int, curvatures: Curvatures, norms: Callable[..., list[Norms]]) -> None:
        self.count = 0
        self._degree, self._curvatures, self._norms_of = degree, curvatures, norms
        self.last: Sample | None = None  # the last that counts
        self._h: Grads | None = None
        self._g: Grads = {}
        self._means: Grads = {}  # gradients that are our own: means over samples
        self._before: Norms = {}  # norms of the gradients that ĥ belongs to
        self._now: Norms | None = None  # and as the update finds them
        self._settled = False  # whether they have been out of reach since
        self._known: dict[Tensor, tuple[Tensor, float]] = {}  # curvatures that were recorded, and their norms
        self._left: GradientMarks | None = None

    @property
    def has_curvatures(self) -> bool:
        """Whether ĥ had to be computed before the end."""
        return self._h is not None

    def make_room(self, params: list[Tensor], base: Grads) -> None:
        """Before a further sample: put the mean gradient so far aside, so that ``p.grad`` receives the sample's own."""
        if self._left is not None and self._left.all_are_cleared():  # for a step that was never taken
            self.__init__(self._degree, self._curvatures, self._norms_of)  # type: ignore[misc]
        if self.last is None:
            return
        self._g = gradients(params)
        if self._h is None:
            self._h = self._curvatures(self.last, self._g)
        for p in params:
            p.grad = base[p].clone() if p in base else None
            if p in self._g and self._means.get(p) is not self._g[p]:
                self._g[p] = self._g[
                    p
                ].clone()  # the next gradient may be written to the same memory, as in buckets of DDP

    def put_back(self) -> None:
        """After a sample that does not count."""
        for p, g in self._g.items():
            p.grad = g
        self._g = {}

    def add(self, sample: Sample, params: list[Tensor], captured: Grads | None, *, settled: bool, last: bool) -> bool:
        """After a sample: whether it counts. ``captured`` is what was recorded of its ĥ during the backward pass.

        ``settled``: until the update, or the next sample, nobody else has the gradients; ``last``: the update follows at once.
        """
        if not sample.has_new_gradient():
            self.put_back()
            return False
        self.count += 1
        self.last = sample
        if captured is not None or self.count > 1:
            g = gradients(params)
            now, recorded = None, captured or {}
            if captured is not None and sample.norms is not None:
                now, of_captured = self._norms_of(g, captured)
                recorded = self._rescaled(captured, sample.norms, now)
                self._known = {p: (x, of_captured[p]) for p, x in captured.items() if p in of_captured}
            h = {**self._curvatures(sample, g), **recorded}
            self._h = h if self._h is None else _running_mean(self._h, h, self.count)
            self._means = _running_mean(self._g, g, self.count) if self.count > 1 else {}
            for p, mean in self._means.items():
                p.grad = mean
            self._g = {}
            if self.count > 1:
                now, self._known = None, {}  # of this sample alone
            self._now = now
            self._settled = settled
            if not settled:
                self.expect_changes(params)
        self._left = None if last else GradientMarks(params)
        return True

    def expect_changes(self, params: list[Tensor]) -> None:
        """Before somebody may scale the gradients."""
        if self._h is not None:
            self._before = self._norms_of(gradients(params))[0] if self._now is None else self._now
        self._settled, self._now = False, None

    def curvatures(self, g: Grads) -> Grads:
        """ĥ for the gradient as it is now."""
        assert self.last is not None
        if self._h is None:
            return self._curvatures(self.last, g)
        return self._h if self._settled else self._rescaled(self._h, self._before, self.norms(g))

    def norms(self, g: Grads) -> Norms:
        """Of the gradients as the update finds them."""
        if self._now is None:
            (self._now,) = self._norms_of(g)
        return self._now

    def norms_of_curvatures(self, h: Grads) -> Norms:
        """Those of what was recorded are known, if it has not been rescaled since."""
        known = {p: self._known[p][1] for p, x in h.items() if p in self._known and self._known[p][0] is x}
        rest = {p: x for p, x in h.items() if p not in known}
        return known | self._norms_of(rest)[0] if rest else known

    def _rescaled(self, h: Grads, before: Norms, now: Norms) -> Grads:
        """ĥ of gradients whose norms were ``before``."""
        factor = {p: norm / before[p] for p, norm in now.items() if before.get(p, 0.0) > 0}
        return {p: x if factor.get(p, 1.0) == 1 else x * factor[p] ** self._degree for p, x in h.items()}


def gradients(params: list[Tensor]) -> Grads:
    grads = {p: p.grad for p in params if p.grad is not None}
    if any(g.is_sparse for g in grads.values()):
        raise RuntimeError("sparse gradients are not supported: build the embedding with sparse=False")
    return grads


def _running_mean(mean: Grads, new: Grads, count: int) -> Grads:
    """The mean of ``count`` values, in the place of the mean so far; where a parameter took no part in a sample the value is zero."""

    def mean_of(p: Tensor) -> Tensor:
        if p in mean and p in new:
            return mean[p].lerp_(new[p], 1 / count)
        return mean[p].mul_(1 - 1 / count) if p in mean else new[p] / count

    return {p: mean_of(p) for p in {**mean, **new}}


def not_finite(norms: Norms) -> Tensor | None:
    return next((p for p, norm in norms.items() if not math.isfinite(norm)), None)


def mean_of_losses(losses: list[Any]) -> Any:
    """The mean of what the closure returned; None if it returned None."""
    if any(loss is None for loss in losses):
        return None
    if not all(isinstance(loss, (Tensor, float, int)) for loss in losses):
        raise TypeError(
            f"the closure returned a {type(losses[0]).__name__}: it must return the loss, a number or a tensor"
        )
    if isinstance(losses[0], Tensor):
        return losses[0].detach() if len(losses) == 1 else torch.stack([loss.detach() for loss in losses]).mean(0)
    return sum(losses) / len(losses)
