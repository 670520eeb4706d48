"""Turn the arguments of an optimizer's ``__init__`` into those of its parameter groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from vadam.optim.base import VariationalOptimizer

Init = TypeVar("Init", bound=Callable[..., None])


def group_arguments(init: Init) -> Init:
    """Decorate an ``__init__`` whose parameters are the rule's arguments, so that they become those of the parameter groups.

    The body runs first. It keeps the arguments that the rule does not declare. Then the base class is initialised with the others:
    those that the rule declares are defaults of the parameter groups, and ``**common`` is passed on.

        class Vprop(VariationalOptimizer):
            rule = rules.vprop

            @group_arguments
            def __init__(self, params: Iterable[Any], lr: float = 1e-3, *, num_data: float, **common: Unpack[CommonArguments]) -> None: ...
    """
    shape = signature(init)

    @wraps(init)
    def __init__(self: VariationalOptimizer, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        bound = shape.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        groups = {argument.name: given[argument.name] for argument in self.rule.ARGUMENTS if argument.name in given}
        VariationalOptimizer.__init__(self, given["params"], groups, **given.get("common", {}))

    return cast(Init, __init__)
