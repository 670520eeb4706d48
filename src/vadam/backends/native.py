"""Run a rule as one native loop over all weights: float32 on the CPU, other tensors by the plain backend.

The rule's equations, applied to LLVM's values, become the body of a loop (``kernels``). The noise is drawn in the same loop, a tile at
a time, so that it never leaves the processor's cache. One call does all tensors, on torch's own threads. Tensors are not copied: a
table names the memory of each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from vadam.backends import kernels, threads
from vadam.backends.bucket import Bucket, wrong_size
from vadam.backends.kernels import TILE, Kernel
from vadam.backends.noise import NoiseSource
from vadam.backends.plain import Grads, Plain, PlainDraw
from vadam.backends.shards import PLAIN, is_sharded, local, sharded_like
from vadam.rules.binding import letters_of, precision_fields, vector_fields

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
        if draw is not None and not draw.keeps_means:
            draw.restore()
        for alike in _by_kernel(native, curvatures, {} if draw is None else draw.held):
            self._update(alike, grads, curvatures, draw, scale)
        if rest:
            other = None if draw is None else draw.other
            self._plain.update(rest, grads, curvatures, draw=other, scale=scale, accept=accept)
        if draw is not None:
            draw.restore()  # parameters without a gradient

    def _update(
        self, buckets: list[Bucket], grads: Grads, curvatures: Grads, draw: NativeDraw | None, scale: Grads | None
    ) -> None:
        params = [p for bucket in buckets for p in bucket.params]
        rule, has_curvature = buckets[0].rule, params[0] in curvatures
        means = None if draw is None else draw.take_means(params)
        kernel = kernels.update(rule, has_curvature=has_curvature, in_place=means is None)
        table = Table(params)
        table.add(params, written=True)
        if means is not None:
            table.add(means)
        table.add([grads[p] for p in params])
        if has_curvature:
            table.add([curvatures[p] for p in params])
        for name in vector_fields(rule):
            table.add([state[name] for bucket in buckets for state in bucket.states], written=True)
        for bucket in buckets:
            numbers = _numbers(bucket, rule.update)
            if has_curvature:
                factors = [1.0 if scale is None else float(scale[p]) for p in bucket.params]
                table.add_numbers([[*numbers, factor] for factor in factors])
            else:
                table.add_numbers([numbers] * len(bucket.params))
        table.run(kernel)
        for bucket in buckets:
            bucket.set_scalars(kernel.advanced(_numbers(bucket, rule.update)))

    def norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the norm of each tensor, over all ranks if it is sharded; a norm is finite only if the squares are."""
        if any(is_sharded(x) or _address(x, x) is None for x in tensors):
            return self._plain.norms(tensors)
        table = Table(tensors)
        table.add(tensors)
        table.add_numbers([[]] * len(tensors))
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
        self._native, self._noise, self._sign, self.keeps_means, self.other = native, noise, sign, keep_mean, other
        self._params = [p for bucket in native for p in bucket.params]
        self._perturbed = False
        self.held: dict[Tensor, Tensor] = {}  # the means of parameters that hold the sample, as they lie in memory

    def perturb(self) -> None:
        """Let the parameters hold the sample."""
        if self._params:
            means = _empty_like(self._params) if self.keeps_means else []
            self._shift(self._params, self._sign, means)
            self._perturbed, self.held = True, dict(zip(self._params, means, strict=False))
        if self.other is not None:
            self.other.perturb()

    def restore(self, *, put_aside: bool = False) -> None:
        """Let the parameters hold the means again; the sample follows from its seed."""
        if self.held:
            torch._foreach_copy_([local(p.detach()) for p in self.held], list(self.held.values()))
        elif self._perturbed and not self.keeps_means:
            self._shift(self._params, -self._sign)
        self._perturbed, self.held = False, {}
        if self.other is not None:
            self.other.restore(put_aside=put_aside)

    def mean_of(self, p: Tensor) -> Tensor | None:
        """Return the mean of a parameter, None if it holds it."""
        if p in self.held:
            return sharded_like(p, self.held[p])
        if self._perturbed and not self.keeps_means and any(p is q for q in self._params):
            copies = [local(q.detach()).clone() for q in self._params]
            self._shift(copies, -self._sign)
            return sharded_like(p, next(copy for q, copy in zip(self._params, copies, strict=True) if q is p))
        return None if self.other is None else self.other.mean_of(p)

    def take_means(self, params: list[Tensor]) -> list[Tensor] | None:
        """Return the means of parameters that an update is going to overwrite, None if they hold their means."""
        if not all(p in self.held for p in params):
            return None
        return [self.held.pop(p) for p in params]

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
            for bucket in alike:
                numbers = [
                    *_numbers(bucket, bucket.rule.precision),
                    bucket.letters.get("sampling_precision", 0.0),
                    sign,
                ]
                table.add_numbers([numbers] * len(bucket.params))
            table.run(kernel(alike[0].rule), seed=self._noise.seed)
            first += len(params)


class Table:
    """The memory that a native loop works on: for each tensor the address of every array and of its numbers."""

    def __init__(self, like: Sequence[Tensor], *, first_stream: int = 0) -> None:
        self._like = [local(x) for x in like]
        self._spans = _spans(tuple(x.numel() for x in self._like), first_stream)
        self._columns: list[list[int]] = []
        self._numbers: list[list[float]] = []
        self._written: list[Tensor] = []
        self._copies: list[tuple[Tensor, Tensor]] = []

    def add(self, tensors: Sequence[Tensor], *, written: bool = False) -> None:
        """Add an array: one tensor for each row. What does not lie in memory as its row does is copied, and copied back."""
        column = []
        for x, like in zip(tensors, self._like, strict=True):
            address = _address(x, like)
            if address is None:
                if local(x).numel() != like.numel():
                    raise RuntimeError(wrong_size(local(x), like))
                copy = torch.empty_like(like, dtype=torch.float32).copy_(local(x.detach()))
                self._copies.append((local(x.detach()) if written else copy, copy))
                address = copy.data_ptr()
            column.append(address)
        self._columns.append(column)
        if written:
            self._written += tensors

    def add_numbers(self, rows: list[list[float]]) -> None:
        """Add the numbers of further tensors."""
        self._numbers += rows

    def run(self, kernel: Kernel, seed: int = 0) -> None:
        """Run a kernel and let autograd know what was written."""
        self._call(kernel, seed, 0)
        for target, copy in self._copies:
            if target is not copy:
                target.copy_(copy)
        increment_version(self._written)

    def norms(self) -> Tensor:
        """Return the norm of every tensor."""
        tiles = np.zeros(len(self._spans) + 1)
        self._call(kernels.squares(), 0, tiles.ctypes.data)
        first = np.searchsorted(self._spans[:, 0], np.arange(len(self._like)))
        sums = np.add.reduceat(tiles, np.minimum(first, len(self._spans)))
        sums[[x.numel() == 0 for x in self._like]] = 0
        return torch.from_numpy(np.sqrt(sums))

    def _call(self, kernel: Kernel, seed: int, results: int) -> None:
        numbers = np.array(self._numbers, dtype=np.float64)
        rows = numbers.ctypes.data + 8 * numbers.shape[1] * np.arange(len(numbers))
        addresses = np.column_stack([*np.array(self._columns, dtype=np.int64), rows])
        job = np.array(
            [len(self._spans), self._spans.ctypes.data, addresses.ctypes.data, seed, results], dtype=np.int64
        )
        kernel.run(job.ctypes.data, threads.number_for(len(self._spans)))


@lru_cache(maxsize=64)
def _spans(sizes: tuple[int, ...], first_stream: int) -> np.ndarray:
    """Return the tiles of tensors of these sizes: tensor, offset, length, stream of the noise."""
    counts = np.array([-(-size // TILE) for size in sizes], dtype=np.int64)
    tensor = np.repeat(np.arange(len(sizes)), counts)
    offset = TILE * (np.arange(len(tensor)) - np.repeat(np.array([0, *accumulate(counts)][:-1]), counts))
    length = np.minimum(TILE, np.array(sizes, dtype=np.int64)[tensor] - offset)
    return np.ascontiguousarray(np.column_stack([tensor, offset, length, tensor + first_stream]).astype(np.int64))


def _address(x: Tensor, like: Tensor) -> int | None:
    """Return where a tensor lies in memory, None if it does not lie there in float32 and in the order of ``like``."""
    x = local(x)
    if x.dtype is not torch.float32 or not x.is_cpu or x.is_neg() or x.shape != like.shape or type(x) not in PLAIN:
        return None
    if not (x.is_contiguous() if like.is_contiguous() else x.stride() == like.stride() and is_dense(like)):
        return None
    address = x.data_ptr()
    return address if address or not x.numel() else None


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
    for bucket in buckets:
        fits = bucket.dtype is torch.float32 and kernels.is_arithmetic(bucket.rule)
        fits = fits and all(_address(p, local(p)) is not None for p in bucket.params)
        (native if fits else rest).append(bucket)
    places = sorted((local(p).data_ptr(), n) for b in native for p, n in zip(b.params, b.sizes, strict=True) if n)
    if any(start + 4 * n > following for (start, n), (following, _) in pairwise(places)):
        return [], buckets
    return native, rest


def _by_kernel(buckets: list[Bucket], *kinds: Grads) -> list[list[Bucket]]:
    """Return the buckets that one call can take: of one rule, all of them with tensors of a kind or none."""
    alike: dict[tuple[Any, ...], list[Bucket]] = {}
    for bucket in buckets:
        alike.setdefault((bucket.rule, *[bucket.params[0] in kind for kind in kinds]), []).append(bucket)
    return list(alike.values())


def _numbers(bucket: Bucket, function: Any) -> list[float]:
    """Return the scalars of the state and the letters that a function of the rule takes, as a kernel expects them."""
    letters = bucket.letters
    return [*bucket.scalars().values(), *[float(letters[name]) for name in letters_of(function)]]


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
