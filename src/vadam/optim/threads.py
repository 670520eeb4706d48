"""Native code on the threads that torch computes with.

A pool of our own would compete with torch's: after each operation OpenMP's threads wait for the next one by spinning.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import torch

TILES_OF_A_THREAD = 8  # fewer, and waking a thread takes longer than it saves

Work = Callable[[int, int, int], None]
"""A native function of the address of its orders, this thread, and the number of threads."""


@cache
def openmp() -> ctypes.CDLL | None:
    """GNU's OpenMP as torch has loaded it; None where torch was built with another."""
    root = Path(torch.__file__).parent
    for library in (*root.glob("lib/libgomp*"), *root.parent.glob("torch.libs/libgomp*")):
        found = ctypes.CDLL(os.fspath(library))
        found.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        for name in ("omp_get_thread_num", "omp_get_num_threads"):
            function = getattr(found, name)
            function.argtypes, function.restype = [], ctypes.c_int
        return found
    return None


def number_for(tiles: int) -> int:
    return max(1, min(torch.get_num_threads(), tiles // TILES_OF_A_THREAD))


def team(work: Any) -> Callable[[int, int], None]:
    """``run(address, threads)`` for a function that numba has compiled: work(address, this thread, threads), on each of them."""
    import numba
    from numba import types

    alone = numba.cfunc(types.void(types.intp, types.intp, types.intp))(_calling(work))
    library = openmp()
    if library is None:
        return lambda address, threads: _on_a_pool(alone.ctypes, address, threads)
    this, number = library.omp_get_thread_num, library.omp_get_num_threads

    def member(address):  # type: ignore[no-untyped-def]
        work(address, this(), number())

    together = numba.cfunc(types.void(types.intp))(member)

    def run(address: int, threads: int) -> None:
        if threads == 1:
            alone.ctypes(address, 0, 1)
        else:
            library.GOMP_parallel(together.address, address, threads, 0)

    return run


def _calling(work: Any) -> Callable[..., None]:
    def alone(address, thread, threads):  # type: ignore[no-untyped-def]
        work(address, thread, threads)

    return alone


def _on_a_pool(work: Work, address: int, threads: int) -> None:
    if threads == 1:
        work(address, 0, 1)
    else:
        under_way = [_pool(threads).submit(work, address, thread, threads) for thread in range(threads)]
        wait(under_way)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="vadam")
