"""Call a rule's functions with the arguments that each of them takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from types import ModuleType
from typing import Any, get_type_hints

import torch
from torch import Tensor

RuleArgs = dict[str, Any]


class Curvature(Enum):
    """The estimate of the curvature ĥ that a rule expects, in each case the mean over the samples."""

    SQUARED_GRADIENT = "ĝ∘ĝ, the squared minibatch gradient"
    PER_EXAMPLE_SQUARES = "the mean of squared per-example gradients"
    REPARAMETERISED = "ĝ∘ε/σ"
    HESSIAN = "the Hessian, its diagonal, or an estimate that may be negative"
    NONE = "none: the rule does not use ĥ"


@cache
def arg_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's keyword-only arguments."""
    return tuple(name for name, x in signature(function).parameters.items() if x.kind is Parameter.KEYWORD_ONLY)


def call(function: Callable[..., Any], *operands: Any, rule_args: RuleArgs) -> Any:
    """Call a rule's function with those of the arguments that it accepts."""
    return function(*operands, **{name: rule_args[name] for name in arg_names(function)})


def bind(rule: ModuleType, values: Mapping[str, Any]) -> RuleArgs:
    """Return the values of a rule's arguments under the names of the equations, and what is added to the precision for sampling."""
    return {**rule.rule_args(values), "sampling_precision": values.get("sampling_precision", 0.0)}


@cache
def vector_fields(rule: ModuleType) -> tuple[str, ...]:
    """Return the fields of a rule's state, besides the mean, that hold a number for every weight."""
    return tuple(name for name, kind in get_type_hints(rule.State).items() if kind is Tensor and name != "mu")


@cache
def scalar_fields(rule: ModuleType) -> tuple[str, ...]:
    """Return the fields of a rule's state that hold one number."""
    return tuple(name for name, kind in get_type_hints(rule.State).items() if kind is not Tensor)


def state_of(rule: ModuleType, vectors: dict[str, Any], scalars: dict[str, Any]) -> Any:
    """Return a rule's state made of its vectors and scalars, None for fields that are not given."""
    return rule.State(*[vectors[name] if name in vectors else scalars.get(name) for name in rule.State._fields])


@cache
def scope(rule: ModuleType) -> str:
    """Return the unit that a rule needs at once: a "weight" (elementwise), a "tensor" with its shape, or the "model"."""
    return getattr(rule, "SCOPE", "weight")


def shapes_of(rule: ModuleType, name: str, shape: torch.Size) -> set[tuple[int, ...]]:
    """Return the shapes that a tensor of a rule's state may have: that of the weights, unless the rule says another."""
    found: set[tuple[int, ...]] = (
        rule.shapes(name, shape) if name in rule.State._fields and hasattr(rule, "shapes") else {tuple(shape)}
    )
    return found


def curvature(rule: ModuleType) -> Curvature:
    """Return the curvature that a rule expects: ``CURVATURE``, or the squared gradient if it declares none."""
    return getattr(rule, "CURVATURE", Curvature.SQUARED_GRADIENT)


def has_posterior(rule: ModuleType) -> bool:
    """Return True if the rule has a posterior to sample from."""
    return hasattr(rule, "precision")


def rule_for(rule: ModuleType, values: Mapping[str, Any]) -> ModuleType:
    """Return the rule that the arguments select.

    With ``momentum`` it is the one that ``MOMENTUM_RULES`` names, by ``exact_momentum``.
    """
    if not values.get("momentum") or not hasattr(rule, "MOMENTUM_RULES"):
        return rule
    return import_module(f"vadam.rules.{rule.MOMENTUM_RULES[values.get('exact_momentum', False)]}")


def is_variant(rule: ModuleType, of: Iterable[ModuleType]) -> bool:
    """Return True if a rule is chosen by the arguments of another one."""
    name = rule.__name__.rpartition(".")[2]
    return any(name in getattr(other, "MOMENTUM_RULES", {}).values() for other in of)


@cache
def precision_fields(rule: ModuleType) -> tuple[str, ...]:
    """Return the fields of the state that sampling depends on, without the scalars: those of the precision, if elementwise."""
    if scope(rule) != "weight":
        return tuple(name for name in rule.State._fields if name not in scalar_fields(rule))
    used: list[str] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            used.append(name)
            return 1.0 if name in scalar_fields(rule) else torch.ones(1, 1)

    call(rule.precision, Recorder(), rule_args=dict.fromkeys(arg_names(rule.precision), 1.0))
    return tuple(name for name in rule.State._fields if name in used and name not in scalar_fields(rule))
