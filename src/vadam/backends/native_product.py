"""Multiply a stack of matrices by one vector each, at the speed of the memory: W₁ x₁, …, W_n x_n.

A network evaluated on one input at many draws of its weights reads every weight once. Libraries of linear algebra take two to five
times as long for it: their products are made for matrices that are used more than once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache

import torch
from llvmlite import ir
from torch import Tensor

from vadam.backends import threads
from vadam.backends.llvm import LONG, POINTER, REAL, Function, Library, Value

SUM = ("reassoc", "contract", "nsz")  # in any order, so that many terms are added at once


def stacked_product(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Return the products [n, m] of contiguous float32 matrices [n, m, k] on the CPU with vectors [n, k] or, for all, [1, k]."""
    n, m, k = matrices.shape
    vectors = vectors.contiguous()
    products = torch.empty(n, m, dtype=torch.float32, device="cpu")
    step = k if len(vectors) > 1 else 0
    job = array("q", (n * m, m, k, step, matrices.data_ptr(), vectors.data_ptr(), products.data_ptr()))
    _kernel()(job.buffer_info()[0], threads.number_for(matrices.numel()))
    return products


@cache
def _kernel() -> Callable[[int, int], None]:
    module = ir.Module(name="product")
    dot = _emit_dot(module)
    work = Function(module, "work", [POINTER, LONG, LONG])
    rows, m, k, step, matrices, vectors, products = (work.load(work.ir.args[0], LONG, i) for i in range(7))
    thread, number = work.argument(1), work.argument(2)
    first, last = (Value(work.builder, work.builder.sdiv((rows * t).ir, number.ir)) for t in (thread, thread + 1))
    with work.loop(first, last) as row:
        vector = Value(work.builder, work.builder.sdiv(row.ir, m.ir)) * step
        operands = [work.offset(matrices, REAL, row * k), work.offset(vectors, REAL, vector), k.ir]
        work.builder.call(dot, [*operands, work.offset(products, REAL, row)])
    work.end()
    threads.emit_region(module, work.ir)
    return threads.parallel(Library(module))


def _emit_dot(module: ir.Module) -> ir.Function:
    """Add ``dot(a, b, k, result)``: result ← Σ aᵢ bᵢ."""
    function = Function(module, "dot", [POINTER, POINTER, LONG, POINTER])
    a, b, _, result = function.ir.args
    k, builder = function.argument(2), function.builder
    total = builder.alloca(REAL)
    builder.store(ir.Constant(REAL, 0.0), total)
    with function.loop(k.constant(0), k) as i:
        product = builder.fmul(function.load(a, REAL, i).ir, function.load(b, REAL, i).ir, flags=SUM)
        builder.store(builder.fadd(builder.load(total, typ=REAL), product, flags=SUM), total)
    function.store(Value(builder, builder.load(total, typ=REAL)), result, 0)
    function.end()
    return function.ir
