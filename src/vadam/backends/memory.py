"""The memory that native loops work on: addresses of tensors, tiles of work, scratch memory for means."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._C import TensorBase
from torch.autograd.graph import increment_version

from vadam.backends import threads
from vadam.backends.bucket import Memory, are_same, memory_of, wrong_size
from vadam.backends.kernels import SEED, TILE, Kernel
from vadam.backends.shards import PLAIN, local

PIECE = 1 << 22  # numbers of a piece of memory: smaller than what the allocator returns to the system

_is_cpu = TensorBase.is_cpu.__get__  # type: ignore[attr-defined]
_shape = TensorBase.shape.__get__  # type: ignore[attr-defined]
_dtype = TensorBase.dtype.__get__  # type: ignore[attr-defined]


def is_float32_on_cpu(tensors: Sequence[Tensor]) -> bool:
    """Return True if native loops can read the tensors, apart from their order in memory."""
    return (
        {*map(type, tensors)} <= {*PLAIN}
        and {*map(_dtype, tensors)} <= {torch.float32}
        and False not in map(_is_cpu, tensors)
        and True not in map(TensorBase.is_neg, tensors)
    )


def is_dense(x: Tensor) -> bool:
    """Return True if the elements fill a contiguous block of memory, each once, in any order of the axes."""
    expected = 1
    for size, stride in sorted(zip(x.shape, x.stride(), strict=True), key=lambda pair: pair[1]):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


class Rows:
    """Dense float32 tensors on the CPU, cut into tiles: a row for each tensor."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.shapes = [*map(_shape, tensors)]
        self.memory = memory_of(tensors)
        self.column = Column(self.memory[0])
        self.tiles = tiles_of((*self.memory[1],))
        self._known: dict[tuple[str, ...], tuple[Memory, list[Column]]] = {}

    @classmethod
    def make(cls, params: Sequence[Tensor]) -> Rows | None:
        """Return the rows of parameters, or of this rank's shards; None if native loops cannot take them."""
        shards = params if {*map(type, params)} <= {*PLAIN} else [local(p) for p in params]
        if not is_float32_on_cpu(shards):
            return None
        rows = cls(shards)
        dense = rows.memory[-1] is None or all(map(is_dense, shards))
        return rows if dense and _all_have_memory(rows.memory) else None

    @cached_property
    def pieces(self) -> list[list[int]]:
        """Return, for each allocation that holds several tensors, the offsets at which they begin, and its end."""
        pieces: list[list[int]] = []
        for size in self.tiles.sizes:
            if not pieces or pieces[-1][-1] + size > PIECE:
                pieces.append([0])
            pieces[-1].append(pieces[-1][-1] + size)
        return pieces

    def are_current(self) -> bool:
        """Return True if no tensor has moved in memory since the rows were made."""
        return memory_of(self.tensors) == self.memory

    def elsewhere(self) -> Rows:
        """Return rows of uninitialised memory in the layout that the tensors had when these rows were made."""
        flat = [torch.empty(size, dtype=torch.float32, device="cpu") for size in self.tiles.sizes]
        return Rows(_laid_out(flat, self.shapes, self.memory[-1]))

    def find(self, tensors: Sequence[Tensor]) -> Column | None:
        """Return the addresses of tensors with the layout of these rows, None if one has another."""
        if not is_float32_on_cpu(tensors):
            return None
        memory = memory_of(tensors)
        return Column(memory[0]) if memory[1:] == self.memory[1:] and _all_have_memory(memory) else None

    def part(self, start: int, tensors: Sequence[Tensor], like: Rows) -> Column | None:
        """Return the addresses of consecutive tensors of these rows; None if they are others, or have another layout than ``like``."""
        addresses, sizes, strides = self.memory
        part = slice(start, start + len(tensors))
        if (sizes[part], strides) != like.memory[1:] or not are_same(self.tensors[part], tensors):
            return None
        return self.column if len(tensors) == len(self.tensors) else Column(addresses[part])

    def find_named(self, names: tuple[str, ...], tensors: Sequence[Tensor]) -> list[Column] | None:
        """Return the addresses of arrays that stay from call to call, one after the other; known while no tensor moves."""
        known = self._known.get(names)
        memory = memory_of(tensors)
        if known is not None and memory == known[0]:
            return known[1]
        n = len(self.tensors)
        found = [self.find(tensors[k * n : (k + 1) * n]) for k in range(len(names))]
        columns = [column for column in found if column is not None]
        if len(columns) < len(names):
            return None
        self._known[names] = memory, columns
        return columns


_address = attrgetter("address")


class Column:
    """An array of the tensors' addresses, and the address of that array, which a native loop reads."""

    def __init__(self, addresses: list[int]) -> None:
        self._addresses = array("q", addresses)
        self.address = self._addresses.buffer_info()[0]


def _all_have_memory(memory: Memory) -> bool:
    addresses, sizes, *_ = memory
    return 0 not in addresses or all(a or not n for a, n in zip(addresses, sizes, strict=True))


class Tiles(NamedTuple):
    """The tiles of some tensors (tensor, offset, length), where each tensor begins among them, and the tensors' sizes."""

    table: np.ndarray
    address: int
    first: np.ndarray
    is_empty: np.ndarray
    sizes: list[int]
    total: int
    """Number of weights."""


@lru_cache(maxsize=64)
def tiles_of(sizes_in_bytes: tuple[int, ...]) -> Tiles:
    """Cut float32 tensors of these sizes into tiles."""
    sizes = [size // 4 for size in sizes_in_bytes]
    counts = np.array([-(-size // TILE) for size in sizes], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    tensor = np.repeat(np.arange(len(sizes)), counts)
    offset = TILE * (np.arange(len(tensor)) - first[tensor])
    length = np.minimum(TILE, np.array(sizes, dtype=np.int64)[tensor] - offset)
    table = np.ascontiguousarray(np.column_stack([tensor, offset, length]).astype(np.int64))
    return Tiles(table, address_of(table), first, counts == 0, sizes, sum(sizes))


def address_of(x: np.ndarray) -> int:
    """Return the address of an array's first element."""
    return int(x.__array_interface__["data"][0])


class Buffers:
    """Uninitialised tensors with the layout of some rows, in a few allocations.

    Large pieces would be new memory of the system every time, at the cost of a page fault for every page.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows, self._shapes = rows, [*map(_shape, rows.tensors)]
        self._pieces = [torch.empty(starts[-1], dtype=torch.float32, device="cpu") for starts in rows.pieces]
        bases = [piece.data_ptr() for piece in self._pieces]
        at = zip(bases, rows.pieces, strict=True)
        self.column = Column([base + 4 * start for base, starts in at for start in starts[:-1]])

    def tensors(self) -> list[Tensor]:
        """Return the memory as tensors in the layout of the rows."""
        parts = [
            flat[start:end]
            for flat, starts in zip(self._pieces, self._rows.pieces, strict=True)
            for start, end in pairwise(starts)
        ]
        return _laid_out(parts, self._shapes, self._rows.memory[-1])


def _laid_out(parts: list[Tensor], shapes: list[Any], strides: list[Any] | None) -> list[Tensor]:
    """Return views of vectors in these shapes; contiguous if no strides are given."""
    if strides is None:
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
    layouts = zip(parts, shapes, strides, strict=True)
    return [part.as_strided(shape, stride) for part, shape, stride in layouts]


class Call:
    """One run of a kernel over rows: the addresses of its arrays, one after the other."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._columns: list[Column] = []
        self._written: list[Tensor] = []
        # Tensors to be written, and what is computed in their place.
        self._copies: list[tuple[Tensor | None, Tensor]] = []

    def add(self, tensors: Sequence[Tensor], *, written: bool = False) -> None:
        """Add an array: a tensor for each row. A tensor without the layout of its row is copied, and copied back."""
        column = self.rows.find(tensors)
        if column is None:
            column = Column([self._place(x, i, written) for i, x in enumerate(tensors)])
        self._columns.append(column)
        if written:
            self._written += tensors

    def add_rows(self) -> None:
        """Add the tensors of the rows themselves as an array that the kernel writes to."""
        self._columns.append(self.rows.column)
        self._written += self.rows.tensors

    def add_states(self, states: Sequence[dict[str, Any]], fields: tuple[str, ...], *, written: bool = False) -> None:
        """Add an array for each of some fields of the rows' states."""
        tensors = [state[name] for name in fields for state in states]
        columns = self.rows.find_named(fields, tensors)
        if columns is None:
            for name in fields:
                self.add([state[name] for state in states], written=written)
            return
        self._columns += columns
        if written:
            self._written += tensors

    def add_column(self, column: Column) -> None:
        """Add an array by the addresses of its tensors, which have the layout of the rows."""
        self._columns.append(column)

    def run(
        self,
        kernel: Kernel,
        numbers: Sequence[float] = (),
        *,
        seed: int = 0,
        stream: int = 0,
        factors: array[float] | None = None,
        results: int = 0,
    ) -> None:
        """Run a kernel and let autograd know what was written; ``stream`` is the number of the noise stream of the first tensor."""
        tiles = self.rows.tiles
        self._count, self._kernel, self._factors = len(tiles.table), kernel, factors
        self._numbers = array("d", numbers)
        scale = 0 if factors is None else factors.buffer_info()[0]
        given, addresses = self._numbers.buffer_info()[0], map(_address, self._columns)
        self._job = array("q", (self._count, tiles.address, seed, stream, results, scale, given, *addresses))
        self._run()

    def run_again(self, seed: int, last_number: float) -> None:
        """Run the same kernel over the same arrays, with another seed and another last number."""
        self._job[SEED], self._numbers[-1] = seed, last_number
        self._run()

    def _run(self) -> None:
        self._kernel.run(self._job.buffer_info()[0], threads.number_for(self.rows.tiles.total))
        for target, copy in self._copies:
            if target is not None:
                target.copy_(copy)
        if self._written:
            increment_version(self._written)

    def _place(self, x: Tensor, i: int, written: bool) -> int:
        """Return the address of a tensor or of a copy of it."""
        like, shard = self.rows.tensors[i], local(x.detach())
        if shard.numel() != like.numel():
            raise RuntimeError(wrong_size(shard, like))
        if is_float32_on_cpu([shard]) and shard.stride() == like.stride() and (shard.data_ptr() or not shard.numel()):
            return shard.data_ptr()
        copy = torch.empty_like(like, dtype=torch.float32).copy_(shard)
        self._copies.append((shard if written else None, copy))
        return copy.data_ptr()
