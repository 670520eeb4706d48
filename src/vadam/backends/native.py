"""Run a rule as one native loop over all weights: float32 on the CPU, other tensors by the plain backend.

The rule's equations, applied to LLVM's values, become the body of a loop (``kernels``). The noise is drawn in the same loop, a tile at
a time, so that it never leaves the processor's cache. One call does all tensors of a bucket, on torch's own threads. Tensors are not
copied: the loop is told where they lie (``memory``).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadam.backends import kernels
from vadam.backends.bucket import Bucket, Gradients, Grads
from vadam.backends.memory import Buffers, Call, Column, Rows
from vadam.backends.noise import NoiseSource
from vadam.backends.plain import Plain
from vadam.backends.plain_draw import PlainDraw
from vadam.backends.shards import PLAIN, local, sharded_like
from vadam.rules.binding import arg_names, precision_fields, vector_fields


class Native:
    """Runs the buckets that native loops can take, and the others by the plain backend."""

    def __init__(self) -> None:
        self._plain = Plain()

    def draw(self, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool) -> NativeDraw:
        """Return a sample of the weights; ``perturb`` writes it to the parameters."""
        native, rest = _split(buckets)
        other = self._plain.draw(rest, noise, sign, keep_mean=keep_mean) if rest else None
        return NativeDraw(buckets, native, noise, sign, keep_mean=keep_mean, other=other)

    def update(
        self,
        buckets: list[Bucket],
        grads: Grads,
        curvatures: Grads,
        *,
        draw: NativeDraw | None = None,
        scale: Grads | None = None,
        accept: Tensor | None = None,
    ) -> None:
        """Apply the rule to buckets whose parameters all have a gradient; see ``Plain.update``."""
        native, rest = _split(buckets) if accept is None else ([], buckets)
        for bucket in native:
            self._update(bucket, grads, curvatures, draw if bucket.sampled else None, scale)
        if rest:
            other = None if draw is None else draw.other
            if draw is not None and any(draw.moved(p) for bucket in rest for p in bucket.params):
                draw.restore()  # drawn by native loops, but no longer fit for them
            self._plain.update(rest, grads, curvatures, draw=other, scale=scale, accept=accept)
        if draw is not None:
            draw.restore()  # parameters without a gradient

    def _update(
        self, bucket: Bucket, grads: Grads, curvatures: Grads, draw: NativeDraw | None, scale: Grads | None
    ) -> None:
        rule = bucket.rule
        means = None if draw is None else draw.means_of(bucket)
        has_curvature = bool(curvatures) and bucket.params[0] in curvatures
        args = _args_per_weight(bucket, rule.update)
        kernel = kernels.update(rule, args, has_curvature=has_curvature, in_place=means is None)
        call = Call(bucket.rows)
        call.add_rows()
        if means is not None:
            call.add_column(means.column)
        _add_gradients(call, bucket, grads)
        if has_curvature:
            call.add(bucket.select(curvatures))
        call.add_states(bucket.states, vector_fields(rule), written=True)
        for name in args:
            call.add(bucket.rule_args[name])
        numbers = _numbers(bucket, rule.update)
        factors = None
        if has_curvature:
            factors = array("d", [1.0] * len(bucket.params) if scale is None else map(float, bucket.select(scale)))
        call.run(kernel, numbers, factors=factors)
        if draw is not None:
            draw.forget(bucket)
        bucket.set_scalars(kernel.advanced(numbers))

    def norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the norm of each tensor, over all ranks if it is sharded; it is finite only if the squares are."""
        rows = _dense_rows(tensors)
        if rows is None:
            return self._plain.norms(tensors)
        totals = np.add.reduceat(np.frombuffer(self._squares(rows)), rows.tiles.first)
        totals[rows.tiles.is_empty] = 0
        return torch.from_numpy(np.sqrt(totals))

    def first_above(self, bound: float, kinds: Sequence[Grads]) -> int | None:
        """Return the position of the first tensor whose norm is not below a bound; None if all are."""
        rows = _dense_rows([x for of_kind in kinds for x in of_kind.values()])
        if rows is None or not sum(self._squares(rows)) < bound**2:  # of all tensors together
            return self._plain.first_above(bound, kinds)
        if isinstance(kinds[0], Gradients):
            kinds[0].rows = rows
        return None

    def _squares(self, rows: Rows) -> array[float]:
        """Return the sum of squares of each tile, and a zero at the end, so that no tensor is empty."""
        sums = array("d", bytes(8 * (len(rows.tiles.table) + 1)))
        call = Call(rows)
        call.add_column(rows.column)
        call.run(kernels.squares(), results=sums.buffer_info()[0])
        return sums

    def precision(self, bucket: Bucket) -> Tensor:
        """Return the precision of the posterior as one vector."""
        return self._plain.precision(bucket)

    def moments(self, means: Sequence[Tensor], squares: Sequence[Tensor]) -> NativeMoments | None:
        """Return means of gradients and of their squares that take one more sample in one call; None if they are not dense."""
        rows = _dense_rows(means)
        column = None if rows is None else rows.find(squares)
        return None if rows is None or column is None else NativeMoments(rows, column)


class NativeMoments:
    """Means of gradients and of their squares: a further sample is one loop."""

    def __init__(self, means: Rows, squares: Column) -> None:
        self._means, self._squares = means, squares

    def add(self, grads: Sequence[Tensor], weight: float) -> None:
        """Move the means towards a sample by a part of the way."""
        call = Call(self._means)
        call.add_rows()
        call.add_column(self._squares)
        call.add(grads)
        call.run(kernels.moments(), [weight])


class NativeDraw:
    """One sample of the weights: its noise is a function of its seed, so that nothing but the means is kept."""

    def __init__(
        self,
        buckets: list[Bucket],
        native: list[Bucket],
        noise: NoiseSource,
        sign: float,
        *,
        keep_mean: bool,
        other: PlainDraw | None,
    ) -> None:
        self.buckets = buckets
        self._native, self._noise, self._sign, self._keep_mean, self.other = native, noise, sign, keep_mean, other
        self._drawn_at: list[Rows] = [bucket.rows for bucket in native]  # noise follows the order of their memory
        self._was_perturbed = False
        self._means: dict[int, Buffers | None] = {}  # of the buckets that hold the sample; None where it is drawn again
        self._repeated: dict[int, Call] = {}  # by which another sample is drawn at the same means

    def redraw(self, noise: NoiseSource, sign: float) -> bool:
        """Become another sample, which begins at the means that are kept here; return False if one is not kept or has moved."""
        means = self._means.values()
        if self.other is not None or None in means or len(means) < len(self._native):
            return False
        if False in map(Rows.are_current, self._drawn_at):
            return False
        self._noise, self._sign = noise, sign
        return True

    def perturb(self) -> None:
        """Let the parameters hold the sample."""
        for k, bucket in enumerate(self._native):
            means = self._means.get(k)
            if means is not None:
                self._perturb_from(k, means)
                continue
            rows = self._rows(k) if self._was_perturbed else self._drawn_at[k]
            call = Call(rows)
            if rows is self._drawn_at[k]:
                call.add_rows()
            else:  # moved while the sample was paused
                call.add([p.detach() for p in bucket.params], written=True)
            means = Buffers(call.rows) if self._keep_mean else None
            if means is not None:
                call.add_column(means.column)
            kernel, numbers = self._complete(partial(kernels.perturb, keep_mean=means is not None), k, call)
            seed = self._noise.seed
            self._means[k] = means  # before anything moves, and not before an error: there are no means to restore yet
            call.run(kernel, [*numbers, self._sign], seed=seed, stream=self._stream(k))
        self._was_perturbed = True
        if self.other is not None:
            self.other.perturb()

    def _perturb_from(self, k: int, means: Buffers) -> None:
        """Write the sample over another one of the same step: only the seed and the sign differ from the call before."""
        call = self._repeated.get(k)
        if call is not None:
            call.run_again(self._noise.seed, self._sign)
            return
        call = self._repeated[k] = Call(self._drawn_at[k])
        call.add_rows()
        call.add_column(means.column)
        self._run(partial(kernels.perturb, from_mean=True), k, call, self._sign)

    def restore(self, *, keep_sample: bool = False) -> None:
        """Let the parameters hold the means again; the sample follows from its seed."""
        while self._means:  # the last bucket first: parameters may share their memory
            k = max(self._means)
            params, means = [local(p.detach()) for p in self._native[k].params], self._means[k]
            if means is None:
                self._shift_back(k, params)
            else:
                pairs = zip(params, means.tensors(), strict=True)
                fitting = [(p, mean) for p, mean in pairs if p.shape == mean.shape]  # others were given other data
                torch._foreach_copy_([p for p, _ in fitting], [mean for _, mean in fitting])
            del self._means[k]
        if self.other is not None:
            self.other.restore(keep_sample=keep_sample)

    def mean_of(self, p: Tensor) -> Tensor | None:
        """Return the mean of a parameter, None if it holds it."""
        for k, means in self._means.items():
            for i, q in enumerate(self._native[k].params):
                if q is p and means is not None:
                    return sharded_like(p, means.tensors()[i])
                if q is p:
                    copies = [local(x.detach()).clone() for x in self._native[k].params]
                    self._shift_back(k, copies)
                    return sharded_like(p, copies[i])
        return None if self.other is None else self.other.mean_of(p)

    def moved(self, p: Tensor) -> bool:
        """Return True if native loops have moved a parameter to the sample."""
        return any(p is q for k in self._means for q in self._native[k].params)

    def means_of(self, bucket: Bucket) -> Buffers | None:
        """Return the means of a bucket that an update is going to overwrite; None if the bucket holds them."""
        for k, means in self._means.items():
            if self._native[k].params is bucket.params and self._native[k].rows is bucket.rows and means is not None:
                return means
        self.restore()  # in other buckets, if at all
        return None

    def forget(self, bucket: Bucket) -> None:
        """Do not restore a bucket that an update has overwritten."""
        for k in self._means:
            if self._native[k].params is bucket.params:
                del self._means[k]
                break

    def products(self, grads: Grads) -> Grads:
        """Return ĝ∘ε/σ of every parameter that has a gradient."""
        h: Grads = {} if self.other is None else self.other.products(grads)
        for k, bucket in enumerate(self._native):
            if any(p in grads for p in bucket.params):
                given = [grads[p] if p in grads else torch.zeros_like(p) for p in bucket.params]
                rows = self._rows(k)
                buffers, call = Buffers(rows), Call(rows)
                call.add(given)
                call.add_column(buffers.column)
                self._run(kernels.products, k, call, self._sign)
                results = zip(bucket.params, buffers.tensors(), strict=True)
                h |= {p: sharded_like(p, x) for p, x in results if p in grads}
        return h

    def noise(self) -> Grads:
        """Return ε of every parameter."""
        noise: Grads = {}
        for k, bucket in enumerate(self._native):
            rows = self._rows(k)
            buffers, call = Buffers(rows), Call(rows)
            call.add_column(buffers.column)
            self._run(kernels.noise, k, call, self._sign)
            noise |= {p: sharded_like(p, x) for p, x in zip(bucket.params, buffers.tensors(), strict=True)}
        return noise | ({} if self.other is None else self.other.noise())

    def _shift_back(self, k: int, tensors: list[Tensor]) -> None:
        """Turn samples of a bucket into means by drawing the noise again."""
        call = Call(self._rows(k))
        call.add(tensors, written=True)
        self._run(kernels.perturb, k, call, -self._sign)

    def _rows(self, k: int) -> Rows:
        """Return rows in the layout in which a bucket was drawn: its own, or of other memory if a parameter has moved since."""
        drawn_at = self._drawn_at[k]
        return drawn_at if drawn_at.are_current() else drawn_at.elsewhere()

    def _run(self, make_kernel: Any, k: int, call: Call, sign: float) -> None:
        """Run a kernel of the noise on a bucket."""
        kernel, numbers = self._complete(make_kernel, k, call)
        call.run(kernel, [*numbers, sign], seed=self._noise.seed, stream=self._stream(k))

    def _complete(self, make_kernel: Any, k: int, call: Call) -> tuple[kernels.Kernel, list[float]]:
        """Add the arrays that the precision of a bucket depends on; return the kernel and its numbers without the sign."""
        bucket = self._native[k]
        call.add_states(bucket.states, precision_fields(bucket.rule))
        args = _args_per_weight(bucket, bucket.rule.precision)
        for name in args:
            call.add(bucket.rule_args[name])
        numbers = [*_numbers(bucket, bucket.rule.precision), float(bucket.rule_args["sampling_precision"])]
        return make_kernel(bucket.rule, args), numbers

    def _stream(self, k: int) -> int:
        """Return the number of the noise stream of a bucket's first tensor."""
        return sum([len(before.params) for before in self._native[:k]]) if k else 0


def fill_with_draws(draws: list[Tensor], mean: list[Tensor], precision: list[Tensor], seed: int) -> None:
    """Fill tensors [n, ...] with n draws μ + ε/√precision of some contiguous tensors."""
    n = len(draws[0])
    rows = Rows([row for stacked in draws for row in stacked.unbind()])
    call = Call(rows)
    call.add_rows()
    for tensors in (mean, precision):
        call.add([x for x in tensors for _ in range(n)])
    call.run(kernels.gaussian(), seed=seed)


def _add_gradients(call: Call, bucket: Bucket, grads: Grads) -> None:
    """Add the gradients of a bucket, at the addresses that were found when they were checked."""
    tensors, checked = bucket.select(grads), grads.rows if isinstance(grads, Gradients) else None
    column = None if checked is None else checked.part(bucket.start, tensors, like=bucket.rows)
    if column is None:
        call.add(tensors)
    else:
        call.add_column(column)


def _rows(bucket: Bucket) -> Rows | None:
    """Return the current addresses of a bucket's parameters as rows; None if native loops cannot take them."""
    if bucket.rows is None or not bucket.rows.are_current():
        fits = bucket.dtype is torch.float32 and not bucket.overlaps and kernels.is_arithmetic(bucket.rule)
        bucket.rows = Rows.make(bucket.params) if fits else None
    return bucket.rows


def _dense_rows(tensors: Sequence[Tensor]) -> Rows | None:
    """Return tensors as rows; None if they are not dense, in float32 and on the CPU, or sharded."""
    return Rows.make(tensors) if tensors and {*map(type, tensors)} <= {*PLAIN} else None


def _split(buckets: list[Bucket]) -> tuple[list[Bucket], list[Bucket]]:
    """Return the buckets that native loops can take, and the others."""
    native = [bucket for bucket in buckets if (bucket.rows or _rows(bucket)) is not None]
    return native, [] if len(native) == len(buckets) else [bucket for bucket in buckets if bucket.rows is None]


def _numbers(bucket: Bucket, function: Any) -> list[float]:
    """Return the scalars of the state and the arguments that a function of the rule takes; 0 stands for an argument per weight."""
    given = bucket.numbers.get(function)
    if given is None:
        rule_args, per_weight = bucket.rule_args, bucket.args_per_weight
        given = [0.0 if name in per_weight else float(rule_args[name]) for name in arg_names(function)]
        bucket.numbers[function] = given
    return [*bucket.scalars().values(), *given]


def _args_per_weight(bucket: Bucket, function: Any) -> tuple[str, ...]:
    """Return the names of those arguments of a function that are given per weight."""
    names = bucket.args_per_weight
    return tuple(name for name in arg_names(function) if name in names) if names else ()
