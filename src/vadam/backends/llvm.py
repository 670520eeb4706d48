"""Arithmetic on LLVM values: a rule applied to them becomes native code.

Weights are float32; scalars are float64 and are rounded where they meet a weight, as torch does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from llvmlite import binding, ir
from torch.nn.functional import softplus

REAL, DOUBLE, WORD, LONG = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
POINTER = ir.PointerType()
FLAGS = ("contract", "nsz", "arcp")  # fused multiply-add, no sign of zero, division by multiplication


class NotArithmetic(Exception):
    """Raised where a rule uses more than arithmetic, roots, bounds, softplus and sigmoid."""


class Value:
    """A number in a function under construction; operators append instructions."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder, self.ir = builder, value

    @property
    def is_integer(self) -> bool:
        return isinstance(self.ir.type, ir.IntType)

    def new(self, value: ir.Value) -> Value:
        return Value(self.builder, value)

    def constant(self, number: float) -> Value:
        """Return a constant of this value's type."""
        return self.new(ir.Constant(self.ir.type, int(number) if self.is_integer else float(number)))

    def pair(self, other: Any) -> tuple[ir.Value, ir.Value]:
        """Return both operands in one type: a float64 that meets a float32 is rounded."""
        a, b = self, other if isinstance(other, Value) else self.constant(other)
        if a.ir.type != b.ir.type:
            a, b = (x if x.ir.type == REAL else x.new(x.builder.fptrunc(x.ir, REAL)) for x in (a, b))
        return a.ir, b.ir

    def binary(self, other: Any, of_reals: str, of_integers: str = "", *, swap: bool = False) -> Value:
        a, b = self.pair(other)
        operands = (b, a) if swap else (a, b)
        if self.is_integer:
            return self.new(getattr(self.builder, of_integers)(*operands))
        return self.new(getattr(self.builder, of_reals)(*operands, flags=FLAGS))

    def __add__(self, other: Any) -> Value:
        return self.binary(other, "fadd", "add")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return self.binary(other, "fsub", "sub")

    def __rsub__(self, other: Any) -> Value:
        return self.binary(other, "fsub", "sub", swap=True)

    def __mul__(self, other: Any) -> Value:
        return self.binary(other, "fmul", "mul")

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        return self.binary(other, "fdiv")

    def __rtruediv__(self, other: Any) -> Value:
        return self.binary(other, "fdiv", swap=True)

    def __neg__(self) -> Value:
        return self * -1

    def __xor__(self, other: Any) -> Value:
        return self.binary(other, "", "xor")

    def __and__(self, other: Any) -> Value:
        return self.binary(other, "", "and_")

    def __or__(self, other: Any) -> Value:
        return self.binary(other, "", "or_")

    def __rshift__(self, other: Any) -> Value:
        return self.binary(other, "", "lshr")

    def __lshift__(self, other: Any) -> Value:
        return self.binary(other, "", "shl")

    def __pow__(self, power: float) -> Value:
        if power not in (2, -2, 0.5):
            raise NotArithmetic(f"power {power}")
        return self.sqrt() if power == 0.5 else self * self if power == 2 else 1 / (self * self)

    def square(self) -> Value:
        return self * self

    def sqrt(self) -> Value:
        function = self.builder.module.declare_intrinsic("llvm.sqrt", [self.ir.type])
        return self.new(self.builder.call(function, [self.ir]))

    def rsqrt(self) -> Value:
        return 1 / self.sqrt()

    def clamp(self, min: Any = None, max: Any = None) -> Value:
        """Bound the value; NaN stays NaN."""
        bounded = self if min is None else self.where("<", min, min)
        return bounded if max is None else bounded.where(">", max, max)

    def where(self, relation: str, other: Any, replacement: Any) -> Value:
        """Return the replacement where the relation holds, the value itself elsewhere."""
        a, b = self.pair(other)
        compare = self.builder.icmp_signed if self.is_integer else self.builder.fcmp_ordered
        chosen, own = self.new(a).pair(replacement)[::-1]
        return self.new(self.builder.select(compare(relation, a, b), chosen, own))

    def to(self, kind: ir.Type, instruction: str) -> Value:
        """Convert by an instruction of LLVM: "bitcast", "trunc", "sitofp", ..."""
        return self.new(getattr(self.builder, instruction)(self.ir, kind))

    def __getattr__(self, name: str) -> Any:
        raise NotArithmetic(name)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any, kwargs: Any = None) -> Value:
        from vadam.backends import native_math

        known = {softplus: native_math.softplus, torch.sigmoid: native_math.sigmoid}
        if function in known and not kwargs and len(args) == 1:
            return known[function](args[0])
        raise NotArithmetic(getattr(function, "__name__", str(function)))


class Function:
    """A native function under construction: its builder, its arguments, loops."""

    def __init__(
        self, module: ir.Module, name: str, arguments: Sequence[ir.Type], result: ir.Type | None = None
    ) -> None:
        self.ir = ir.Function(module, ir.FunctionType(result or ir.VoidType(), arguments), name)
        self.builder = ir.IRBuilder(self.ir.append_basic_block("entry"))
        for argument in self.ir.args:
            if argument.type == POINTER:
                argument.add_attribute("noalias")

    def argument(self, i: int) -> Value:
        return Value(self.builder, self.ir.args[i])

    def load(self, pointer: ir.Value, kind: ir.Type, index: Any = 0) -> Value:
        return Value(self.builder, self.builder.load(self._at(pointer, kind, index), typ=kind))

    def store(self, value: Value, pointer: ir.Value, index: Any) -> None:
        self.builder.store(value.ir, self._at(pointer, value.ir.type, index))

    def offset(self, address: Value, kind: ir.Type, index: Any) -> ir.Value:
        """Return the pointer to an element behind an address."""
        return self._at(self.builder.inttoptr(address.ir, POINTER), kind, index)

    def _at(self, pointer: ir.Value, kind: ir.Type, index: Any) -> ir.Value:
        position = index.ir if isinstance(index, Value) else ir.Constant(LONG, index)
        return self.builder.gep(pointer, [position], source_etype=kind)

    @contextmanager
    def loop(self, start: Value, stop: Value) -> Iterator[Value]:
        """Run the statements inside for start ≤ i < stop."""
        builder = self.builder
        before, body, after = builder.block, builder.append_basic_block("body"), builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", start.ir, stop.ir), body, after)
        builder.position_at_end(body)
        i = builder.phi(start.ir.type)
        i.add_incoming(start.ir, before)
        yield Value(builder, i)
        following = builder.add(i, ir.Constant(start.ir.type, 1))
        i.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, stop.ir), body, after)
        builder.position_at_end(after)

    def end(self) -> None:
        self.builder.ret_void()


@cache
def _target() -> tuple[Any, str, str]:
    """Return the target of this machine, its processor and the features of that."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    # Vectors of full width: a quarter less time.
    features = binding.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    return binding.Target.from_default_triple(), binding.get_host_cpu_name(), features


class Library:
    """Compiled functions of a module; they live as long as it does."""

    def __init__(self, module: ir.Module) -> None:
        target, processor, features = _target()
        # Not shared: the engine owns it, and frees it when a second thread has compiled the same and this library is dropped.
        machine = target.create_target_machine(cpu=processor, features=features, opt=3)
        compiled = binding.parse_assembly(str(module))
        compiled.verify()
        tuning = binding.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_vectorization = tuning.slp_vectorization = True
        passes = binding.create_pass_builder(machine, tuning)
        passes.getModulePassManager().run(compiled, passes)
        self._engine = binding.create_mcjit_compiler(compiled, machine)
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        return int(self._engine.get_function_address(name))

    def function(self, name: str, *arguments: Any) -> Callable[..., None]:
        """Return a function as a callable of Python; a call lets other threads of Python go on."""
        call = ctypes.CFUNCTYPE(None, *arguments)(self.address(name))
        call.library = self  # type: ignore[attr-defined]
        return call
