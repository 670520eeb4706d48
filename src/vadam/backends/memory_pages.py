"""Allocate large tensors on large pages of memory: a processor that reads many draws looks up small pages a third of the time."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache

import torch
from torch import Tensor

LARGE = 1 << 23  # bytes from which a tensor is worth the call


def empty_in_large_pages(*shape: int) -> Tensor:
    """Return a new float32 tensor on the CPU that Linux may hold in large pages."""
    x = torch.empty(*shape, dtype=torch.float32, device="cpu")
    if x.nbytes >= LARGE and sys.platform == "linux":
        start = -(-x.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        _madvise()(start, x.data_ptr() + x.nbytes - start, mmap.MADV_HUGEPAGE)  # a refusal changes nothing
    return x


@cache
def _madvise() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
