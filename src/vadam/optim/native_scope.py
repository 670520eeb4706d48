"""What numba is told for native loops: pointers, room on the stack, and that arrays do not overlap."""

import math
from functools import cache
from typing import Any, cast

import numpy as np

from vadam.optim import native_math, native_noise
from vadam.optim.noise import TILE


@cache
def names() -> dict[str, Any]:
    """Names that the sources of native loops use."""
    from numba import types

    kinds = {"integers": types.int64, "doubles": types.float64, "reals": types.float32}
    pointers = {name: _pointer(kind) for name, kind in kinds.items()}
    noise = native_noise.noise(pointers["reals"], **options())
    return pointers | native_math.functions() | {"real": np.float32, "sqrt": math.sqrt, "noise": noise, "room": _room()}


@cache
def options() -> dict[str, Any]:
    return {"error_model": "numpy", "pipeline_class": _no_alias()}


@cache
def _no_alias() -> type:
    """Tells the compiler that the arrays of a loop do not overlap: otherwise it does not dare to compute several weights at once."""
    from numba.core.compiler import Compiler

    class NoAlias(Compiler):
        def __init__(self, *args: Any) -> None:
            args[5].noalias = True  # flags
            super().__init__(*args)

    return NoAlias


@cache
def _pointer(kind: Any) -> Any:
    """An address as a pointer to numbers of a kind."""
    from numba import types
    from numba.extending import intrinsic

    pointer = types.CPointer(kind)

    @intrinsic
    def cast_to_pointer(context: Any, address: Any) -> Any:
        return pointer(types.intp), lambda c, builder, s, args: builder.inttoptr(args[0], c.get_value_type(pointer))

    return cast(Any, cast_to_pointer)


@cache
def _room() -> Any:
    """The address of a tile of memory on the stack."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def room(context: Any) -> Any:
        def on_the_stack(c: Any, builder: Any, s: Any, args: Any) -> Any:
            return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(ir.FloatType(), TILE)), ir.IntType(64))

        return types.intp(), on_the_stack

    return cast(Any, room)
