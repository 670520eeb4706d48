"""A kernel read as arithmetic: its equations, applied to symbols, become the statements of a loop over the weights.

Vectors are computed for every weight in their own precision; what depends on numbers alone is computed once, in double precision,
and rounded where it meets a vector, as torch does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from itertools import count
from typing import Any

import torch
from torch.nn.functional import softplus

FUNCTIONS = {softplus: "softplus", torch.sigmoid: "sigmoid"}
"""Of a vector, by the names they have in ``native_math``."""


class NotArithmetic(Exception):
    """The kernel uses something else than + − × ÷, squares, square roots, bounds and ``FUNCTIONS``."""


class Symbol:
    """A vector or a number that is known by its name."""

    def __init__(self, program: Program, name: str, is_vector: bool) -> None:
        self._program, self._name, self._is_vector = program, name, is_vector

    def _new(self, pattern: str, *others: Any) -> Symbol:
        return self._program.statement(pattern, self, *others)

    def __add__(self, other: Any) -> Symbol:
        return self._new("{} + {}", other)

    def __radd__(self, other: Any) -> Symbol:
        return self._new("{1} + {0}", other)

    def __sub__(self, other: Any) -> Symbol:
        return self._new("{} - {}", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._new("{1} - {0}", other)

    def __mul__(self, other: Any) -> Symbol:
        return self._new("{} * {}", other)

    def __rmul__(self, other: Any) -> Symbol:
        return self._new("{1} * {0}", other)

    def __truediv__(self, other: Any) -> Symbol:
        return self._new("{} / {}", other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._new("{1} / {0}", other)

    def __neg__(self) -> Symbol:
        return self._new("-{}")

    def __pow__(self, power: int) -> Symbol:
        if power not in (2, -2):
            raise NotArithmetic(f"power {power}")
        return self._new("{0} * {0}") if power == 2 else 1 / self**2

    def square(self) -> Symbol:
        return self**2

    def sqrt(self) -> Symbol:
        return self._new("sqrt({})")

    def rsqrt(self) -> Symbol:
        return 1 / self.sqrt()

    def clamp(self, min: Any = None, max: Any = None) -> Symbol:
        bounded = self if min is None else self._new("max({}, {})", min)
        return bounded if max is None else bounded._new("min({}, {})", max)

    def __getattr__(self, name: str) -> Any:
        raise NotArithmetic(name)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any, kwargs: Any = None) -> Symbol:
        if function in FUNCTIONS and not kwargs and len(args) == 1 and args[0]._is_vector:
            return args[0]._new(FUNCTIONS[function] + "({})")
        raise NotArithmetic(getattr(function, "__name__", str(function)))


def is_arithmetic(rule: Any) -> bool:
    """Whether a rule's precision and update can be read."""

    def applied(function: Callable[..., Any], *vectors: Any) -> None:
        numbers = [name for name, x in signature(function).parameters.items() if x.kind is Parameter.KEYWORD_ONLY]
        function(*vectors, **{name: Symbol(program, name, False) for name in numbers})

    program = Program()
    vector = Symbol(program, "x", True)
    state = rule.State(*[vector] * len(rule.State._fields))
    try:
        applied(rule.precision, state)
        applied(rule.update, state, vector, vector)
    except NotArithmetic:
        return False
    return True


class Program:
    """What is to be computed once (``of_numbers``) and for every weight (``of_vectors``), as statements of Python."""

    def __init__(self) -> None:
        self.of_numbers: list[str] = []
        self.of_vectors: list[str] = []
        self._known: dict[str, str] = {}

    def statement(self, pattern: str, *operands: Any) -> Symbol:
        is_vector = any(isinstance(x, Symbol) and x._is_vector for x in operands)
        value = pattern.format(*(self.read(x, is_vector) for x in operands))
        statements, letter = (self.of_vectors, "v") if is_vector else (self.of_numbers, "x")
        return Symbol(self, self._named(value, statements, letter), is_vector)

    def read(self, x: Any, in_vector: bool) -> str:
        """An operand's name; a number is rounded before it meets a vector."""
        name = x._name if isinstance(x, Symbol) else repr(float(x))
        rounded = in_vector and not (isinstance(x, Symbol) and x._is_vector)
        return self._named(f"real({name})", self.of_numbers, "c") if rounded else name

    def _named(self, value: str, statements: list[str], letter: str) -> str:
        if value not in self._known:
            self._known[value] = f"{letter}{len(self._known)}"
            statements.append(f"{self._known[value]} = {value}")
        return self._known[value]


def loop(
    kernel: Callable[..., Sequence[Any]],
    rule: Any,
    vectors: Sequence[str],
    targets: Sequence[str],
    numbers: Sequence[Any],
) -> str:
    """The source of ``body(*pointers, numbers, n)``: for each of n weights, targets ← kernel(rule, vectors, *numbers).

    A target of the same name as a vector is written in its place. ``numbers`` are the names of a kernel's further arguments: a
    tuple for a dictionary of numbers, None for one number.
    """
    program = Program()
    number = (Symbol(program, f"numbers[{i}]", False) for i in count())
    arguments = [next(number) if names is None else {name: next(number) for name in names} for names in numbers]
    results = kernel(rule, [Symbol(program, f"{name}_i", True) for name in vectors], *arguments)
    pointers = [*vectors, *(name for name in targets if name not in vectors)]
    loads = [f"{name}_i = {name}[i]" for name in vectors]
    stores = [f"{name}[i] = {program.read(value, True)}" for name, value in zip(targets, results, strict=False)]
    head = [f"def body({', '.join(pointers)}, numbers, n):", *(f"    {line}" for line in program.of_numbers)]
    body = ["    for i in range(n):", *(f"        {line}" for line in (*loads, *program.of_vectors, *stores))]
    return "\n".join([*head, *body]) + "\n"
