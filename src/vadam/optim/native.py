"""The arithmetic of a step as one native loop over all weights, compiled by numba from the rules themselves (``vadam[fast]``).

The equations of a kernel (``kernels``) become the body of a loop (``tracing``); the noise is drawn in the same loop, a tile at a time,
so that it never leaves the processor's cache. Tensors are not copied together: a table names the memory of every one of them, and one
call does them all, on torch's own threads. Single precision on the CPU; whatever else there is goes to ``otherwise``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch._C import TensorBase
from torch.autograd.graph import increment_version

from vadam.optim import native_norms, threads
from vadam.optim.distributed import PLAIN, is_sharded, local
from vadam.optim.kernels import Chunked, Compiled, Engine, Kernel, Receipt, Task, names_of
from vadam.optim.native_scope import names, options
from vadam.optim.noise import BLOCK, TILE
from vadam.optim.pieces import Piece, Slot
from vadam.optim.tracing import is_arithmetic, loop

HEAD, ROW = 4, 6  # words of the table: of its head, and of each row

_is_arithmetic = cache(is_arithmetic)

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, ...] | None, ...]]


@cache
def available() -> bool:
    try:
        import numba  # noqa: F401
    except ImportError:  # also of one that does not go with this numpy
        return False
    return True


@cache
def engine(compiled: bool) -> Engine:
    """How kernels are run: plain, or as fast as this machine can."""
    if not compiled:
        return Chunked()
    return Native(Compiled()) if available() else Compiled()


class Native:
    """Runs kernels as native loops, or by another engine where it cannot."""

    def __init__(self, otherwise: Engine) -> None:
        self.otherwise = otherwise

    def takes(self, piece: Piece) -> bool:
        return self._can_do(piece) and None not in _places(piece, piece.params)

    def _can_do(self, piece: Piece) -> bool:
        if piece.is_native is None:
            single = piece.dtype == torch.float32 and piece.params[0].device.type == "cpu"
            in_memory = all(type(p) in PLAIN or is_sharded(p) for p in piece.params)
            piece.is_native = single and in_memory and _is_arithmetic(piece.rule)
        return piece.is_native

    def __call__(self, kernel: Kernel, tasks: Sequence[Task], seed: int | None = None) -> None:
        """All tasks, in one call for those of one rule; it ends with a 1 on their receipt."""
        calls: dict[Any, list[Task]] = {}
        for task in tasks:
            if self._can_do(task.piece):
                calls.setdefault((task.piece.rule, _signature(task, seed)), []).append(task)
            else:
                self.otherwise(kernel, [task], seed)
        for (rule, signature), alike in calls.items():
            call = Call(alike, signature, seed)
            _compiled(kernel, rule, signature)(call.address, call.threads)
            call.write_back()
            for task in alike:
                if not isinstance(task.writes[0], Tensor):
                    increment_version(task.writes[0])  # so that autograd knows

    def norms(self, tensors: Sequence[Tensor]) -> list[float]:
        places = [_place(x) for x in tensors]
        if None in places:
            return self.otherwise.norms(tensors)
        return native_norms.tables.of((*map(TensorBase.numel, tensors),)).norms(cast(list[int], places))


def _signature(task: Task, seed: int | None) -> Signature:
    reads = [id(slot) for slot in task.reads]
    aliases = tuple(reads.index(id(slot)) if id(slot) in reads else -1 for slot in task.writes)
    return *_names(len(reads), aliases, seed is not None), names_of(task.numbers)


@cache
def _names(reads: int, aliases: tuple[int, ...], noise: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names for what a kernel reads and writes: a target that is read from has one name."""
    vectors = tuple(f"a{i}" for i in range(reads))
    targets = tuple(f"w{i}" if alias < 0 else vectors[alias] for i, alias in enumerate(aliases))
    return ("eps", *vectors) if noise else vectors, targets


class Layout:
    """The table of some pieces, of which a call changes no more than addresses and numbers.

    Head: rows, tiles, seed, address of the receipt. Then a row for each block of each piece: first tile, weights, stream of the noise,
    first and last segment, numbers. Then the segments, parts of one tensor: begin and end in the block, and the address of each
    array. Then the numbers.
    """

    def __init__(self, pieces: Sequence[Piece], streams: Sequence[int], arrays: int, numbers: int) -> None:
        rows: list[list[int]] = []
        segments: list[int] = []
        sources: list[int] = []  # of each address in the segments: its place among all, by piece, array, parameter
        self.tiles, place = 0, 0
        for i, piece in enumerate(pieces):
            for start in range(0, piece.size, BLOCK):
                end, first = min(start + BLOCK, piece.size), len(segments)
                for k, (low, high) in enumerate(pairwise(piece.bounds)):
                    if low < end and high > start:
                        segments += [low - start, high - start, *[0] * arrays]
                        sources += [place + array * len(piece.params) + k for array in range(arrays)]
                rows.append(
                    [self.tiles, end - start, (streams[i] << 32) + start // BLOCK, first, len(segments), i * numbers]
                )
                self.tiles += -(-(end - start) // TILE)
            place += arrays * len(piece.params)
        after_rows = HEAD + ROW * len(rows)
        after_segments = after_rows + len(segments)
        self.words = np.zeros(after_segments + len(pieces) * numbers, dtype=np.int64)
        self.words[:2] = len(rows), self.tiles
        table = np.array(rows, dtype=np.int64).reshape(-1, ROW)
        table[:, 3:] += after_rows, after_rows, after_segments
        self.words[HEAD:after_rows] = table.reshape(-1)
        self.words[after_rows:after_segments] = segments
        self.numbers = self.words[after_segments:].view(np.float64)
        self.address = self.words.ctypes.data
        self._places = after_rows + np.flatnonzero(np.arange(len(segments)) % (2 + arrays) >= 2)
        self._sources = np.array(sources, dtype=np.int64)
        self._addresses: list[int] = []

    def point_to(self, addresses: list[int]) -> None:
        if addresses != self._addresses:
            self.words[self._places] = np.array(addresses, dtype=np.int64)[self._sources]
            self._addresses = addresses


class Call:
    """Tasks of one kernel and rule, and all that they point to."""

    def __init__(self, tasks: Sequence[Task], signature: Signature, seed: int | None) -> None:
        vectors, targets, _ = signature
        self._kept: list[Tensor] = []
        self._copies: list[tuple[Tensor, Tensor]] = []
        extra = [i for i, name in enumerate(targets) if name not in vectors]
        addresses: list[int] = []
        numbers: list[float] = []
        for task in tasks:
            for slot in (*task.reads, *(task.writes[i] for i in extra)):
                self._add(addresses, slot, task)
            for x in task.numbers:
                numbers += x.values() if isinstance(x, dict) else (x,)
        layout = _layout(tasks, len(tasks[0].reads) + len(extra), len(numbers) // len(tasks))
        self.threads = threads.number_for(layout.tiles)
        layout.point_to(addresses)
        layout.numbers[:] = numbers
        self._receipt = Receipt() if tasks[0].receipt is None else tasks[0].receipt
        layout.words[2], layout.words[3] = seed or 0, ctypes.addressof(self._receipt)
        self.address = layout.address

    def _add(self, addresses: list[int], slot: Slot, task: Task) -> None:
        """Of each parameter's part of a slot; what is not plain memory in single precision is copied, and copied back."""
        piece = task.piece
        if isinstance(slot, Tensor):
            _check_size(slot, piece.size, piece)
            base = slot.data_ptr()
            addresses += [base + 4 * bound for bound in piece.bounds[:-1]]
            return
        places = _places(piece, slot)
        for k in [k for k, place in enumerate(places) if place is None]:
            shard = local(slot[k].detach())
            copy = torch.empty(shard.shape, dtype=torch.float32, device="cpu").copy_(shard)
            _check_size(copy, piece.sizes[k], piece)
            self._kept.append(copy)
            if any(slot is target for target in task.writes):
                self._copies.append((shard, copy))
            places[k] = copy.data_ptr()
        addresses += cast(list[int], places)

    def write_back(self) -> None:
        for target, x in self._copies:
            target.copy_(x)


def _place(x: Tensor) -> int | None:
    """Where it lies in memory, if it lies there as it is: in single precision, in order, not negated or zero by a flag."""
    if x.dtype is torch.float32 and type(x) in PLAIN and x.is_cpu and x.is_contiguous() and not x.is_neg():
        place = x.data_ptr()
        return place if place or not x.numel() else None
    return None


def _places(piece: Piece, slot: Sequence[Tensor]) -> list[int | None]:
    """Of each parameter's part of a slot. Parameters and states are as they were found last, as long as they lie where they lay."""
    known = piece.places.get(id(slot))
    sizes = piece.sizes
    if known is not None:  # many small tensors: the methods themselves, without a line of Python for each
        there = [*map(TensorBase.data_ptr, slot)] == known[1] and all(map(TensorBase.is_contiguous, slot))
        if there and [*map(TensorBase.numel, slot)] == sizes:
            return [*known[1]]
    places = [_place(x) for x in slot]
    for x, place, size in zip(slot, places, sizes, strict=True):
        if place is not None and x.numel() != size:
            _check_size(x, size, piece)
    stays = slot is piece.params or (piece.stored is not None and any(slot is x for x in piece.stored.vectors))
    if stays and None not in places:
        piece.places[id(slot)] = slot, cast(list[int], places)
    return places


def _check_size(x: Tensor, size: int, piece: Piece) -> None:
    """A loop in native code does not notice where an array ends."""
    if x.numel() != size:
        shapes = [tuple(p.shape) for p in piece.params]
        raise RuntimeError(
            f"a tensor of {x.numel()} numbers belongs to {size} weights, of parameters of shapes {shapes}: was a parameter given other "
            f"data, or the optimizer the state of another model? Build a new optimizer for a model of another size"
        )


def _layout(tasks: Sequence[Task], arrays: int, numbers: int) -> Layout:
    """Kept at the first piece: the next step has the same."""
    pieces, streams = [task.piece for task in tasks], [task.stream for task in tasks]
    kind = (arrays, numbers, *streams, *map(id, pieces))
    layouts = pieces[0].layouts
    if kind not in layouts:
        if len(layouts) > 8:
            layouts.clear()
        # The pieces stay alive with it, so that their ids are theirs.
        layouts[kind] = pieces, Layout(pieces, streams, arrays, numbers)
    return cast(Layout, layouts[kind][1])


_WORK = """
def work(address, thread, threads):
    table = integers(address)
    scratch = room()
    low, high = table[1] * thread // threads, table[1] * (thread + 1) // threads
    for r in range(table[0]):
        row = {head} + {row} * r
        first, size = table[row], table[row + 1]
        for tile in range(max(low, first), min(high, first + (size + {tile} - 1) // {tile})):
            start = (tile - first) * {tile}
            stop = min(start + {tile}, size)
            {noise}
            for segment in range(table[row + 3], table[row + 4], {stride}):
                a, b = max(table[segment], start), min(table[segment + 1], stop)
                if a < b:
                    at = 4 * (a - table[segment])
                    body({pointers}, doubles(address + 8 * table[row + 5]), b - a)
    if thread == 0:
        integers(table[3])[0] = 1
"""

_NOISE = """half = (stop - start + 1) // 2
            noise(scratch, scratch + 4 * half, half, table[2], table[row + 2], start // 2)"""


@cache
def _compiled(kernel: Kernel, rule: ModuleType, signature: Signature) -> Callable[[int, int], None]:
    """The native loop: ``run(address of the table, threads)``."""
    import numba

    vectors, targets, _ = signature
    scope = names().copy()
    exec(loop(kernel, rule, *signature), scope)
    scope["body"] = numba.njit(fastmath={"contract", "nsz", "arcp"}, **options())(scope["body"])
    arrays = [*vectors, *(name for name in targets if name not in vectors)]
    in_table = [name for name in arrays if name != "eps"]
    pointers = [
        f"reals(table[segment + {2 + in_table.index(name)}] + at)"
        if name != "eps"
        else "reals(scratch + 4 * (a - start))"
        for name in arrays
    ]
    noise = _NOISE if "eps" in arrays else ""
    shape = {"tile": TILE, "head": HEAD, "row": ROW, "stride": 2 + len(in_table)}
    exec(_WORK.format(**shape, pointers=", ".join(pointers), noise=noise), scope)
    return threads.team(numba.njit(error_model="numpy")(scope["work"]))
