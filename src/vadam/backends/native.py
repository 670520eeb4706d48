"""Run a rule as one native loop over all weights: float32 on the CPU, other tensors by the plain backend.

The rule's equations, applied to LLVM's values, become the body of a loop (``kernels``). The noise is drawn in the same loop, a tile at
a time, so that it never leaves the processor's cache. One call does all tensors, on torch's own threads. Tensors are not copied: a
table names the memory of each of them.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._C import TensorBase
from torch.autograd.graph import increment_version

from vadam.backends import kernels, threads
from vadam.backends.bucket import Bucket, wrong_size
from vadam.backends.kernels import TILE, Kernel
from vadam.backends.noise import NoiseSource
from vadam.backends.plain import Grads, Plain, PlainDraw
from vadam.backends.shards import PLAIN, local, sharded_like
from vadam.rules.binding import arg_names, precision_fields, vector_fields

PIECE = 1 << 22  # numbers of a piece of memory: smaller than what the allocator returns to the system


class Native:
    """Runs the buckets that native loops can take in one call, and the others by the plain backend."""

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
        for alike in _by_kernel(native, curvatures):
            self._update(alike, grads, curvatures, draw if alike[0].sampled else None, scale)
        if rest:
            other = None if draw is None else draw.other
            if draw is not None and any(draw.moved(p) for bucket in rest for p in bucket.params):
                draw.restore()  # drawn by native loops, but no longer fit for them
            self._plain.update(rest, grads, curvatures, draw=other, scale=scale, accept=accept)
        if draw is not None:
            draw.restore()  # parameters without a gradient

    def _update(
        self, buckets: list[Bucket], grads: Grads, curvatures: Grads, draw: NativeDraw | None, scale: Grads | None
    ) -> None:
        params = [p for bucket in buckets for p in bucket.params]
        rule, has_curvature = buckets[0].rule, params[0] in curvatures
        means = None if draw is None else draw.means_for(params)
        args = _args_per_weight(buckets[0], rule.update)
        kernel = kernels.update(rule, args, has_curvature=has_curvature, in_place=means is None)
        table = Table(params)
        table.add(params, written=True)
        if means is not None:
            table.add(means)
        table.add([grads[p] for p in params])
        if has_curvature:
            table.add([curvatures[p] for p in params])
        for name in vector_fields(rule):
            table.add([state[name] for bucket in buckets for state in bucket.states], written=True)
        for name in args:
            table.add([x for bucket in buckets for x in bucket.rule_args[name]])
        numbers = [_numbers(bucket, rule.update) for bucket in buckets]
        for bucket, row in zip(buckets, numbers, strict=True):
            if not has_curvature:
                table.add_numbers(row, len(bucket.params))
            elif scale is None:
                table.add_numbers([*row, 1.0], len(bucket.params))
            else:
                for p in bucket.params:
                    table.add_numbers([*row, float(scale[p])], 1)
        table.run(kernel)
        if means is not None and draw is not None:
            draw.forget()
        for bucket, row in zip(buckets, numbers, strict=True):
            bucket.set_scalars(kernel.advanced(row))

    def norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the norm of each tensor, over all ranks if it is sharded; it is finite only if the squares are."""
        if not {*map(type, tensors)} <= {*PLAIN} or _addresses(tensors, tensors) is None:
            return self._plain.norms(tensors)
        table = Table(tensors)
        table.add(tensors)
        table.add_numbers([], len(tensors))
        return table.norms()

    def precision(self, bucket: Bucket) -> Tensor:
        """Return the precision of the posterior as one vector."""
        return self._plain.precision(bucket)


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
        self._params = [p for alike in _by_kernel(native) for bucket in alike for p in bucket.params]
        self._perturbed = False
        self._means: list[Tensor] = []  # of the parameters, as they lie in memory

    def perturb(self) -> None:
        """Let the parameters hold the sample."""
        if self._params:
            self._means = _empty_like(self._params) if self._keep_mean else []
            self._shift(self._params, self._sign, self._means)
            self._perturbed = True
        if self.other is not None:
            self.other.perturb()

    def restore(self, *, put_aside: bool = False) -> None:
        """Let the parameters hold the means again; the sample follows from its seed."""
        if self._perturbed and self._keep_mean:
            pairs = zip([local(p.detach()) for p in self._params], self._means, strict=True)
            fitting = [(p, mean) for p, mean in pairs if p.shape == mean.shape]  # others were given other data
            torch._foreach_copy_([p for p, _ in fitting], [mean for _, mean in fitting])
        elif self._perturbed:
            self._shift(self._params, -self._sign)
        self._perturbed, self._means = False, []
        if self.other is not None:
            self.other.restore(put_aside=put_aside)

    def mean_of(self, p: Tensor) -> Tensor | None:
        """Return the mean of a parameter, None if it holds it."""
        i = next((i for i, q in enumerate(self._params) if q is p), None) if self._perturbed else None
        if i is None:
            return None if self.other is None else self.other.mean_of(p)
        if self._keep_mean:
            return sharded_like(p, self._means[i])
        copies = [local(q.detach()).clone() for q in self._params]
        self._shift(copies, -self._sign)
        return sharded_like(p, copies[i])

    def moved(self, p: Tensor) -> bool:
        """Return True if native loops have moved a parameter to the sample."""
        return self._perturbed and any(map(partial(operator.is_, p), self._params))

    def means_for(self, params: list[Tensor]) -> list[Tensor] | None:
        """Return the means of parameters that an update is going to overwrite; None if they hold their means."""
        if self._perturbed and self._keep_mean and _are_same(params, self._params):
            return self._means
        self.restore()
        return None

    def forget(self) -> None:
        """Do not restore parameters that an update has overwritten."""
        self._perturbed, self._means = False, []

    def products(self, grads: Grads) -> Grads:
        """Return ĝ∘ε/σ of every parameter that has a gradient."""
        h: Grads = {} if self.other is None else self.other.products(grads)
        if any(p in grads for p in self._params):
            results = _empty_like(self._params)
            given = [grads[p] if p in grads else torch.zeros_like(p) for p in self._params]
            self._run(kernels.products, [(given, False), (results, True)], self._sign)
            h |= {p: sharded_like(p, x) for p, x in zip(self._params, results, strict=True) if p in grads}
        return h

    def noise(self) -> Grads:
        """Return ε of every parameter."""
        eps = _empty_like(self._params)
        self._run(kernels.noise, [(eps, True)], self._sign)
        of_native = {p: sharded_like(p, x) for p, x in zip(self._params, eps, strict=True)}
        return of_native | ({} if self.other is None else self.other.noise())

    def _shift(self, vectors: list[Tensor], sign: float, means: Sequence[Tensor] = ()) -> None:
        """Add ± the deviation to the parameters, or to copies of them; write the means if there is room for them."""
        arrays = [(vectors, True), *([(list(means), True)] if means else [])]
        self._run(partial(kernels.perturb, keep_mean=bool(means)), arrays, sign)

    def _run(self, kernel: Any, vectors: list[tuple[list[Tensor], bool]], sign: float) -> None:
        """Run a kernel of the noise on all parameters, those of one rule in a call."""
        first = 0
        for alike in _by_kernel(self._native):
            params = [p for bucket in alike for p in bucket.params]
            part = slice(first, first + len(params))
            table = Table(params, first_stream=first)
            for tensors, written in vectors:
                table.add(tensors[part], written=written)
            for name in precision_fields(alike[0].rule):
                table.add([state[name] for bucket in alike for state in bucket.states])
            args = _args_per_weight(alike[0], alike[0].rule.precision)
            for name in args:
                table.add([x for bucket in alike for x in bucket.rule_args[name]])
            for bucket in alike:
                numbers = _numbers(bucket, bucket.rule.precision)
                table.add_numbers([*numbers, bucket.rule_args["sampling_precision"], sign], len(bucket.params))
            table.run(kernel(alike[0].rule, args), seed=self._noise.seed)
            first += len(params)


def fill_with_draws(draws: list[Tensor], mean: list[Tensor], precision: list[Tensor], seed: int) -> None:
    """Fill tensors [n, ...] with n draws μ + ε/√precision of some contiguous tensors."""
    n = len(draws[0])
    rows = [row for stacked in draws for row in stacked.unbind()]
    table = Table(rows)
    table.add(rows, written=True)
    for tensors in (mean, precision):
        table.add([x for x in tensors for _ in range(n)])
    table.add_numbers([], len(rows))
    table.run(kernels.gaussian(), seed=seed)


class Table:
    """The memory that a native loop works on: for each tensor the address of every array and of its numbers."""

    def __init__(self, like: Sequence[Tensor], *, first_stream: int = 0) -> None:
        self._like = like if {*map(type, like)} <= {*PLAIN} else [local(x) for x in like]
        self._spans = _spans((*map(TensorBase.numel, self._like),), first_stream)
        self._columns: list[list[int]] = []
        self._numbers: list[float] = []
        self._first_number: list[int] = []  # of each tensor
        self._written: list[Tensor] = []
        self._copies: list[
            tuple[Tensor | None, Tensor]
        ] = []  # tensors to be written, and what is computed in their place

    def add(self, tensors: Sequence[Tensor], *, written: bool = False) -> None:
        """Add an array: one tensor for each row. What does not lie in memory as its row does is copied, and copied back."""
        addresses = _addresses(tensors, self._like)
        self._columns.append(
            [self._place(x, i, written) for i, x in enumerate(tensors)] if addresses is None else addresses
        )
        if written:
            self._written += tensors

    def _place(self, x: Tensor, i: int, written: bool) -> int:
        """Return the address of a tensor or of a copy of it."""
        like, shard = self._like[i], local(x.detach())
        if shard.numel() != like.numel():
            raise RuntimeError(wrong_size(shard, like))
        addresses = _addresses([shard], [like])
        if addresses is None:
            copy = torch.empty_like(like, dtype=torch.float32).copy_(shard)
            self._copies.append((shard if written else None, copy))
            addresses = [copy.data_ptr()]
        return addresses[0]

    def add_numbers(self, numbers: list[float], tensors: int) -> None:
        """Add the numbers of further tensors."""
        self._first_number += [len(self._numbers)] * tensors
        self._numbers += numbers

    def run(self, kernel: Kernel, seed: int = 0) -> None:
        """Run a kernel and let autograd know what was written."""
        self._call(kernel, seed, 0)
        for target, copy in self._copies:
            if target is not None:
                target.copy_(copy)
        increment_version(self._written)

    def norms(self) -> Tensor:
        """Return the norm of every tensor."""
        sums = np.zeros(len(self._spans.tiles) + 1)
        self._call(kernels.squares(), 0, _address_of(sums))
        totals = np.add.reduceat(sums, self._spans.first)
        totals[self._spans.is_empty] = 0
        return torch.from_numpy(np.sqrt(totals))

    def _call(self, kernel: Kernel, seed: int, results: int) -> None:
        numbers = array("d", self._numbers)
        base, _ = numbers.buffer_info()
        rows = [base + 8 * first for first in self._first_number]
        table = array("q", chain.from_iterable(zip(*self._columns, rows, strict=True)))
        job = array("q", (len(self._spans.tiles), self._spans.address, table.buffer_info()[0], seed, results))
        kernel.run(job.buffer_info()[0], threads.number_for(len(self._spans.tiles)))


class Spans(NamedTuple):
    """The tiles of some tensors (tensor, offset, length, stream of the noise), and where each tensor begins among them."""

    tiles: np.ndarray
    address: int
    first: np.ndarray
    is_empty: np.ndarray


@lru_cache(maxsize=64)
def _spans(sizes: tuple[int, ...], first_stream: int) -> Spans:
    counts = np.array([-(-size // TILE) for size in sizes], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    tensor = np.repeat(np.arange(len(sizes)), counts)
    offset = TILE * (np.arange(len(tensor)) - first[tensor])
    length = np.minimum(TILE, np.array(sizes, dtype=np.int64)[tensor] - offset)
    tiles = np.ascontiguousarray(np.column_stack([tensor, offset, length, tensor + first_stream]).astype(np.int64))
    return Spans(tiles, _address_of(tiles), first, counts == 0)


def _address_of(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


def _addresses(tensors: Sequence[Tensor], like: Sequence[Tensor]) -> list[int] | None:
    """Return where tensors lie in memory; None if one does not lie there in float32 and in the order of its ``like``.

    The methods are mapped, without a line of Python for each of many small tensors.
    """
    if not {*map(type, tensors)} <= {*PLAIN} or {x.dtype for x in tensors} - {torch.float32}:
        return None
    if {x.is_cpu for x in tensors} - {True} or any(map(TensorBase.is_neg, tensors)):
        return None
    if [*map(TensorBase.numel, tensors)] != [*map(TensorBase.numel, like)]:
        return None
    if not (all(map(TensorBase.is_contiguous, tensors)) and all(map(TensorBase.is_contiguous, like))):
        pairs = zip(tensors, like, strict=True)
        if not all(x.shape == y.shape and x.stride() == y.stride() and is_dense(y) for x, y in pairs):
            return None
    addresses = [*map(TensorBase.data_ptr, tensors)]
    return (
        None
        if 0 in addresses and any(not a and x.numel() for a, x in zip(addresses, tensors, strict=True))
        else addresses
    )


def _are_same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def is_dense(x: Tensor) -> bool:
    """Return True if the elements fill a stretch of memory, each once."""
    expected = 1
    for size, stride in sorted(zip(x.shape, x.stride(), strict=True), key=lambda pair: pair[1]):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _split(buckets: list[Bucket]) -> tuple[list[Bucket], list[Bucket]]:
    """Return the buckets that native loops can take, and the others; all are others where parameters overlap in memory."""
    native: list[Bucket] = []
    rest: list[Bucket] = []
    places: list[tuple[int, int]] = []
    for bucket in buckets:
        shards = [local(p) for p in bucket.params] if {*map(type, bucket.params)} - {*PLAIN} else bucket.params
        fits = bucket.dtype is torch.float32 and kernels.is_arithmetic(bucket.rule)
        addresses = _addresses(shards, shards) if fits else None
        (rest if addresses is None else native).append(bucket)
        places += [] if addresses is None else [*zip(addresses, map(TensorBase.numel, shards), strict=True)]
    places.sort()
    if True in [start + 4 * n > following for (start, n), (following, _) in pairwise(places)]:
        return [], buckets
    return native, rest


def _by_kernel(buckets: list[Bucket], *kinds: Grads) -> list[list[Bucket]]:
    """Return the buckets that one call can take: of one rule, all of them with tensors of a kind or none."""
    alike: dict[tuple[Any, ...], list[Bucket]] = {}
    for bucket in buckets:
        key = (bucket.rule, bucket.sampled, bucket.args_per_weight, *[bucket.params[0] in kind for kind in kinds])
        alike.setdefault(key, []).append(bucket)
    return list(alike.values())


def _numbers(bucket: Bucket, function: Any) -> list[float]:
    """Return the scalars of the state and the arguments that a function of the rule takes; 0 stands for an argument per weight."""
    rule_args = bucket.rule_args
    given = [rule_args[name] for name in arg_names(function)]
    return [*bucket.scalars().values(), *[0.0 if isinstance(x, list) else float(x) for x in given]]


def _args_per_weight(bucket: Bucket, function: Any) -> tuple[str, ...]:
    """Return the names of those arguments of a function that are given per weight."""
    names = bucket.args_per_weight
    return tuple(name for name in arg_names(function) if name in names) if names else ()


def _empty_like(params: Sequence[Tensor]) -> list[Tensor]:
    """Return uninitialised tensors with the layout of this rank's parameters, cut from pieces of memory.

    Large pieces would be new memory of the system every time, at the cost of a page fault for every page.
    """
    tensors = [local(p) for p in params]
    empty: list[Tensor] = []
    for piece in _pieces([x.numel() for x in tensors]):
        flat = torch.empty(sum(piece), dtype=torch.float32, device="cpu")
        for part in flat.split(piece):
            like = tensors[len(empty)]
            empty.append(part.view(like.shape) if like.is_contiguous() else part.as_strided(like.shape, like.stride()))
    return empty


def _pieces(sizes: list[int]) -> list[list[int]]:
    pieces: list[list[int]] = []
    for size in sizes:
        if not pieces or sum(pieces[-1]) + size > PIECE:
            pieces.append([])
        pieces[-1].append(size)
    return pieces
