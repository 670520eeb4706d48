"""Sums and products of vectors in fewer operations: a product waits until it is known what it is added to.

    x + c·y     torch.add         one operation instead of two
    x + c·y∘z   torch.addcmul     one instead of three
    x + c·y/z   torch.addcdiv     one instead of three

A rule that is given terms instead of vectors reads its weights half as often on a CPU and takes half the launches on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from vadam.rules.binding import arg_names, scalar_fields, scope

Number = float | int
Operand: TypeAlias = "Term | Tensor | Number"


def _operator(name: str) -> Callable[..., Term]:
    """Return a tensor's operator as one of terms."""
    return lambda term, *args: Term.__torch_function__(getattr(Tensor, f"__{name}__"), (), (term, *args))


class Term:
    """The product c·x of a number and a vector, or c·x∘y or c·x/y with a second vector; computed when it is needed."""

    def __init__(self, x: Tensor, c: float = 1.0, y: Tensor | None = None, *, divided: bool = False) -> None:
        self._x, self._c, self._y, self._divided = x, c, y, divided

    def value(self) -> Tensor:
        """Compute the term."""
        return self._vector() if self._c == 1 else self._vector() * self._c

    def _vector(self) -> Tensor:
        """Compute the term without its number."""
        if self._y is None:
            return self._x
        return self._x / self._y if self._divided else self._x * self._y

    def _added_to(self, base: Tensor) -> Term:
        if self._y is None:
            return Term(torch.add(base, self._x, alpha=self._c))
        add = torch.addcdiv if self._divided else torch.addcmul
        return Term(add(base, self._x, self._y, value=self._c))

    def _effort(self) -> int:
        """Return the number of operations that computing the term takes."""
        return (self._y is not None) + (self._c != 1)

    def __add__(self, other: Operand) -> Term:
        if isinstance(other := term(other), Term):
            base, rest = (other, self) if other._effort() < self._effort() else (self, other)
            return rest._added_to(base.value())
        if self._c == 1:
            return Term(self._vector() + other)
        constant = torch.scalar_tensor(other, dtype=self._x.dtype, device="cpu")
        return Term(torch.add(constant, self._vector(), alpha=self._c))

    def __neg__(self) -> Term:
        return Term(self._x, -self._c, self._y, divided=self._divided)

    def __sub__(self, other: Operand) -> Term:
        return self + -other

    def __rsub__(self, other: Tensor | Number) -> Term:
        return -self + other

    def __mul__(self, other: Operand) -> Term:
        if isinstance(other := term(other), Term):
            return Term(self._vector(), self._c * other._c, other._vector())
        return Term(self._x, self._c * float(other), self._y, divided=self._divided)

    def __truediv__(self, other: Operand) -> Term:
        if isinstance(other := term(other), Term):
            return Term(self._vector(), self._c, other.value(), divided=True)
        return self * (1 / float(other))

    def __rtruediv__(self, other: Tensor | Number) -> Term:
        return Term(other / self.value())

    def __pow__(self, exponent: Number) -> Term:
        return self * self if exponent == 2 else Term(self.value() ** exponent)

    def sqrt(self) -> Term:
        """Return the root; that of the number is taken apart."""
        return Term(self._vector().sqrt(), math.sqrt(self._c)) if self._c > 0 else Term(self.value().sqrt())

    def __getattr__(self, name: str) -> Any:
        """Return another attribute or method of the value."""
        if not callable(method := getattr(Tensor, name)):
            return getattr(self.value(), name)
        return lambda *args, **kwargs: self.__torch_function__(method, (), (self, *args), kwargs)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Tensor], _: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> Term:
        """Call a function of torch with the values of the terms."""
        named = {name: value(x) for name, x in (kwargs or {}).items()}
        return cls(function(*map(value, args), **named))

    __radd__, __rmul__ = __add__, __mul__
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(_operator, ("lt", "le", "gt", "ge", "eq", "ne"))  # type: ignore[assignment]
    __hash__ = object.__hash__
    __abs__, __rpow__, __getitem__, __invert__ = map(_operator, ("abs", "rpow", "getitem", "invert"))
    __and__, __or__ = map(_operator, ("and", "or"))

    def __bool__(self) -> bool:
        return bool(self.value())

    def __float__(self) -> float:
        return float(self.value())


def term(x: Any) -> Any:
    """Return a tensor as a term, and anything else as it is."""
    return Term(x) if isinstance(x, Tensor) else x


def terms(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with each tensor as a term."""
    return {name: term(x) for name, x in values.items()}


@cache
def takes_terms(rule: ModuleType) -> bool:
    """Return True if a rule is elementwise and can be computed on terms, which is tried on one weight."""
    if scope(rule) != "weight":
        return False
    weight = Term(torch.ones(1, device="cpu"))
    state = rule.State(**{name: 0.5 if name in scalar_fields(rule) else weight for name in rule.State._fields})
    try:
        for function, operands in ((rule.precision, (state,)), (rule.update, (state, weight, weight))):
            function(*operands, **dict.fromkeys(arg_names(function), 0.5))
    except TypeError:  # functions such as Tensor.tanh insist on a tensor
        return False
    return True


def value(x: Any) -> Any:
    """Return the value of a term, and anything else as it is."""
    return x.value() if isinstance(x, Term) else x
