"""Run the plain backend through ``torch.compile``, and as it is where nothing can be compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam import compiling
from vadam.backends.chunks import Values
from vadam.backends.plain import Plain
from vadam.rules.binding import scope


class Compiled(Plain):
    """Compiles the functions of a bucket; one function serves every size."""

    def evaluate(self, function: Callable[..., Values], *arguments: Any) -> Values:
        """Compute one part of a bucket; numbers are passed as one vector, so that a new value does not compile again."""
        rule, vectors, scalars, rule_args, argument = arguments
        if scope(rule) == "tensor":  # it branches on the number of the step, and its time goes into matrix products
            return super().evaluate(function, *arguments)
        tensors = {name: x for name, x in rule_args.items() if isinstance(x, Tensor)}
        numbers = {name: float(x) for name, x in rule_args.items() if name not in tensors}
        sign = [argument] if isinstance(argument, float) else []
        values = torch.tensor([*scalars.values(), *numbers.values(), *sign], dtype=torch.float64, device="cpu")
        run = _compiled(function, rule, tuple(scalars), tuple(numbers), next(iter(vectors.values())).dtype)
        new, new_scalars = run(vectors, values, tensors, None if sign else argument)
        return new, {name: float(x) for name, x in new_scalars.items()}


@cache
def _compiled(
    function: Callable[..., Values],
    rule: ModuleType,
    scalars: tuple[str, ...],
    rule_args: tuple[str, ...],
    dtype: torch.dtype,
) -> Callable[..., Values]:
    def run(vectors: Any, values: Tensor, tensors: dict[str, Tensor], argument: Tensor | None) -> Values:
        known = {name: values[i] for i, name in enumerate((*scalars, *rule_args))}
        named = {name: known[name] for name in scalars}
        last = values[-1] if len(values) > len(known) else argument
        args = {**{name: known[name] for name in rule_args}, **tensors}  # torch 2.6 cannot compile dict | dict
        return function(rule, vectors, named, args, last)

    run.__name__ = function.__name__
    subject, consequence = "the optimizer's arithmetic", "so its steps are slower"
    return compiling.compiled(run, subject=subject, consequence=consequence, dynamic=True, fullgraph=True)
