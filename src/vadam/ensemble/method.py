"""How a stack is trained: a rule of ``vadam.rules`` and the settings that all members share.

Arguments, defaults, checks and equations are the rule's own. A number that a member sets, such as its prior precision, takes
the place of the method's and reaches the rule as a tensor [E, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam import rules
from vadam.ensemble.members import Member
from vadam.rules import arguments
from vadam.rules.binding import (
    Curvature,
    RuleArgs,
    arg_names,
    bind,
    curvature,
    has_posterior,
    is_variant,
    rule_for,
    scope,
)

Numbers = dict[str, Tensor]

COMPUTED = {Curvature.SQUARED_GRADIENT, Curvature.PER_EXAMPLE_SQUARES, Curvature.REPARAMETERISED, Curvature.NONE}
"""The curvatures that a step of a stack computes."""
MEMBER_FIELDS = frozenset(field.name for field in fields(Member))


def rule_names() -> list[str]:
    """Return the names of the rules that can train a stack: elementwise, with a curvature that a step computes."""
    bases = {name: rule for name, rule in rules.RULES.items() if not is_variant(rule, rules.RULES.values())}
    return [name for name, rule in bases.items() if scope(rule) == "weight" and curvature(rule) in COMPUTED]


class Method:
    """A rule with its settings.

    >>> Method("vadam", lr=0.01, samples=10)
    Method('vadam', lr=0.01, samples=10)

    MAP is ``Method("adam")``. MC-Dropout (Gal and Ghahramani 2016) is ``Method("adam", drops_out=True)``: the inputs of every linear
    layer are dropped at the member's rate p, by masks that differ between examples; predictions have one for each sample. That paper's
    weight decay for E = ½ (y − f)², (1 − p) l²/(2Nτ) with the prior's length scale l, is the ``prior_precision`` (1 − p) l² of a
    member.

    Args:
        name: that of the rule, one of ``rule_names()``.
        samples: Monte-Carlo samples S of the weights in a step.
        drops_out: drop inputs at the rate that each member sets.
        settings: arguments of the rule, as ``vadam.rules.NAME.ARGUMENTS`` declares them. What a member sets itself takes
            their place; ``num_data`` is by default its number of training rows.
    """

    def __init__(self, name: str, *, samples: int = 1, drops_out: bool = False, **settings: Any) -> None:
        if name not in rule_names():
            raise ValueError(f"unknown method {name!r}: choose one of {', '.join(map(repr, rule_names()))}")
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ValueError(f"samples must be a whole number of at least 1, got {samples!r}")
        self.name, self.samples, self.drops_out = name, samples, drops_out
        declared = {argument.name: argument for argument in rules.RULES[name].ARGUMENTS}
        for argument, value in settings.items():
            if argument not in declared:
                raise TypeError(f"{name} has no argument {argument!r}: it has {', '.join(declared)}")
            if value is not None or declared[argument].default is not None:
                declared[argument].check(value)
        given = {argument: tuple(x) if isinstance(x, list) else x for argument, x in settings.items()}
        self.settings: dict[str, Any] = {**arguments.defaults(rules.RULES[name].ARGUMENTS), **given}
        for argument in declared.values():
            if argument.name not in self.settings and argument.name not in MEMBER_FIELDS:
                raise TypeError(f"{name} needs {argument.name}: {argument.example or argument.description}")
        self.rule: ModuleType = rule_for(rules.RULES[name], self.settings)
        self.curvature = curvature(rules.RULES[name])
        self._own = MEMBER_FIELDS & declared.keys()
        self._arg_names = {
            function: arg_names(getattr(self.rule, function))
            for function in ("init", "precision", "update")
            if hasattr(self.rule, function)
        }

    @property
    def has_prior(self) -> bool:
        """Return True if the rule has a prior precision."""
        return "prior_precision" in self.settings

    @property
    def has_posterior(self) -> bool:
        """Return True if the weights are sampled, and False if they are deterministic."""
        return has_posterior(self.rule)

    @property
    def starts_above_prior(self) -> bool:
        """Return True if the posterior must not start wider than the prior."""
        return arguments.starts_above_prior(rules.RULES[self.name].ARGUMENTS)

    # The numbers of the members ----------------------------------------------------------------------------------------------

    def check(self, member: Member, name: str) -> None:
        """Raise ValueError if the rule cannot take the member's numbers."""
        try:
            self.values_of(member)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def numbers(self, members: Sequence[Member], dtype: torch.dtype) -> Numbers:
        """Return the arguments that differ from member to member, [E, 1] each."""
        values = [self.values_of(member) for member in members]
        given = {name for name, value in self.settings.items() if value is not None and not isinstance(value, str)}
        computed = {name for name, value in values[0].items() if name not in given and value is not None}
        return {
            name: torch.tensor([own[name] for own in values], dtype=dtype)[:, None] for name in self._own | computed
        }

    def values_of(self, member: Member) -> dict[str, Any]:
        """Return all arguments for one member, checked, with the defaults that depend on others filled in."""
        own = {name: getattr(member, name) for name in self._own}
        values = {**self.settings, **{name: value for name, value in own.items() if value is not None}}
        values.setdefault("num_data", member.train_rows)
        arguments.check(rules.RULES[self.name].ARGUMENTS, values)
        return values

    # The rule ----------------------------------------------------------------------------------------------------------------

    def rule_args(self, numbers: Numbers) -> RuleArgs:
        """Return the arguments under the names of the equations."""
        return bind(self.rule, {**self.settings, **numbers})

    def init(self, mu: Tensor, rule_args: RuleArgs) -> Any:
        """Return the rule's state at the first weights."""
        return self.rule.init(mu, **self._taken("init", rule_args))

    def precision(self, state: Any, rule_args: RuleArgs) -> Tensor | None:
        """Return the precision of the posterior; None if the weights are deterministic."""
        return self.rule.precision(state, **self._taken("precision", rule_args)) if self.has_posterior else None

    def sampling_precision(self, state: Any, rule_args: RuleArgs) -> Tensor | None:
        """Return the precision that the weights are drawn with; None if they are deterministic."""
        precision, extra = self.precision(state, rule_args), rule_args["sampling_precision"]
        return precision if precision is None or not extra else precision + extra

    def update(self, state: Any, g: Tensor, h: Tensor, rule_args: RuleArgs) -> Any:
        """Return the rule's state after a step."""
        return self.rule.update(state, g, h, **self._taken("update", rule_args))

    def _taken(self, function: str, rule_args: RuleArgs) -> RuleArgs:
        return {name: rule_args[name] for name in self._arg_names[function]}

    # A value -----------------------------------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Method:
        """Return a copy with other settings."""
        return Method(self.name, **{**self.as_dict(), **changes})

    def as_dict(self) -> dict[str, Any]:
        """Return all arguments but the name."""
        return {**self.settings, "samples": self.samples, "drops_out": self.drops_out}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and (self.name, self.as_dict()) == (other.name, other.as_dict())

    def __hash__(self) -> int:
        return hash((self.name, *self.as_dict().values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Method, self.name, **self.as_dict()), ()

    def __repr__(self) -> str:
        usual = {"samples": 1, "drops_out": False, **arguments.defaults(rules.RULES[self.name].ARGUMENTS)}
        given = [
            f"{name}={value!r}" for name, value in self.as_dict().items() if name not in usual or value != usual[name]
        ]
        return f"Method({', '.join([repr(self.name), *given])})"
