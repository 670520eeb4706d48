"""Run native code on the threads that torch computes with.

A pool of our own would compete with torch's: after each operation OpenMP's threads wait for the next one by spinning.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path

import torch
from llvmlite import binding, ir

from vadam.backends.llvm import LONG, POINTER, WORD, Function, Library

WEIGHTS_OF_A_THREAD = 1 << 15  # with fewer, waking a thread takes longer than it saves


@cache
def openmp() -> ctypes.CDLL | None:
    """Return GNU's OpenMP as torch has loaded it; None where torch was built with another."""
    root = Path(torch.__file__).parent
    for library in (*root.glob("lib/libgomp*"), *root.parent.glob("torch.libs/libgomp*")):
        found = ctypes.CDLL(os.fspath(library))
        found.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        for name in ("omp_get_thread_num", "omp_get_num_threads"):
            function = getattr(found, name)
            function.argtypes, function.restype = [], ctypes.c_int
        return found
    return None


def number_for(weights: int) -> int:
    """Return how many threads are worth waking for so many weights."""
    available, useful = torch.get_num_threads(), weights // WEIGHTS_OF_A_THREAD
    return available if useful >= available else useful or 1


def emit_region(module: ir.Module, work: ir.Function) -> None:
    """Add ``region(job)``, which every thread of a parallel region calls, to a module with ``work(job, thread, threads)``."""
    gomp = openmp()
    if gomp is None:
        return
    numbers = []
    region = Function(module, "region", [POINTER])
    for name in ("omp_get_thread_num", "omp_get_num_threads"):
        binding.add_symbol(f"vadam_{name}", ctypes.cast(getattr(gomp, name), ctypes.c_void_p).value)
        function = ir.Function(module, ir.FunctionType(WORD, []), f"vadam_{name}")
        numbers.append(region.builder.sext(region.builder.call(function, []), LONG))
    region.builder.call(work, [region.ir.args[0], *numbers])
    region.end()


def parallel(library: Library) -> Callable[[int, int], None]:
    """Return ``run(job, threads)`` for a library with the functions of ``emit_region``."""
    serial = library.function("work", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    gomp = openmp()
    region = None if gomp is None else library.address("region")

    def run(job: int, threads: int) -> None:
        if threads == 1:
            serial(job, 0, 1)
        elif gomp is not None:
            gomp.GOMP_parallel(region, job, threads, 0)
        else:
            wait([_pool(threads).submit(serial, job, thread, threads) for thread in range(threads)])

    return run


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="vadam")
