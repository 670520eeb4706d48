"""Norms of many tensors as one native loop: sums of squares, a tile at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, cast

import numpy as np

from vadam.optim import threads
from vadam.optim.native_scope import names, options
from vadam.optim.noise import TILE

HEAD, ROW = 4, 3  # words of the table: of its head, and of each row

_SQUARES = """
def work(address, thread, threads):
    table = integers(address)
    for tile in range(table[1] * thread // threads, table[1] * (thread + 1) // threads):
        k = 0
        while k + 1 < table[0] and table[{head} + {row} * (k + 1)] <= tile:
            k += 1
        row = {head} + {row} * k
        start = (tile - table[row]) * {tile}
        doubles(table[2])[tile] = squares(reals(table[row + 2] + 4 * start), min({tile}, table[row + 1] - start))
"""


class SquaresTable:
    """For sums of squares of tensors of some sizes: tensors, tiles, address of the results; each tensor's first tile, size, address."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._first = [0, *accumulate(-(-size // TILE) for size in sizes)]
        self._squares = np.empty(self._first[-1])
        rows = [word for first, size in zip(self._first, sizes, strict=False) for word in (first, size, 0)]
        self._words = np.array([len(sizes), self._first[-1], self._squares.ctypes.data, 0, *rows], dtype=np.int64)
        self._addresses = self._words[HEAD + 2 :: ROW]
        self._address = self._words.ctypes.data

    def norms(self, places: list[int]) -> list[float]:
        self._addresses[:] = places
        _squares()(self._address, threads.number_for(self._first[-1]))
        return cast(list[float], np.sqrt(np.add.reduceat(self._squares, self._first[:-1])).tolist())


class SquaresTables(threading.local):
    """Each thread's own: a native call lets others go on."""

    def __init__(self) -> None:
        self.of = lru_cache(maxsize=64)(SquaresTable)


tables = SquaresTables()


@cache
def _squares() -> Callable[[int, int], None]:
    """The sum of squares of each tile."""
    import numba

    def squares(x: Any, n: int) -> Any:
        total = np.float32(0)
        for i in range(n):
            total += x[i] * x[i]
        return total

    scope = names() | {"squares": numba.njit(fastmath={"reassoc", "contract", "nsz"}, **options())(squares)}
    exec(_SQUARES.format(head=HEAD, row=ROW, tile=TILE), scope)
    return threads.team(numba.njit(error_model="numpy")(scope["work"]))
