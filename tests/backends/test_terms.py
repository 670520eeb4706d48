"""Terms: the same equations in fewer operations."""

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from vadam import rules
from vadam.backends.terms import Term, takes_terms, terms, value
from vadam.rules.binding import arg_names, scalar_fields, scope

ELEMENTWISE = [pytest.param(rule, id=name) for name, rule in rules.RULES.items() if scope(rule) == "weight"]


class Operations(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += 1
        return func(*args, **(kwargs or {}))


def operands(rule: ModuleType) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a state, gradient and curvature, and arguments, one of which is given per weight."""
    generator = torch.Generator().manual_seed(0)

    def positive() -> Tensor:
        return torch.rand(50, generator=generator, dtype=torch.float64) + 0.1

    state = {name: 0.7 if name in scalar_fields(rule) else positive() for name in rule.State._fields}
    numbers = dict.fromkeys(arg_names(rule.update), 0.3) | {"N": 20.0, "xi": 0.5}
    return state, {"g": positive() - 0.5, "h": positive()}, {name: numbers[name] for name in arg_names(rule.update)}


@pytest.mark.parametrize("rule", ELEMENTWISE)
def test_all_elementwise_rules_take_terms(rule: ModuleType) -> None:
    assert not hasattr(rule, "precision") or takes_terms(rule)


@pytest.mark.parametrize("per_weight", [False, True])
@pytest.mark.parametrize("rule", ELEMENTWISE)
def test_a_rule_of_terms_is_the_rule(rule: ModuleType, per_weight: bool) -> None:
    state, estimates, args = operands(rule)
    if per_weight and "mu0" in args:
        args |= {"mu0": state["mu"] / 2, "lam": state["mu"] + 1}
    expected = rule.update(rule.State(**state), *estimates.values(), **args)
    found = rule.update(rule.State(**terms(state)), *terms(estimates).values(), **terms(args))
    for name in rule.State._fields:
        after = value(getattr(found, name))
        assert type(after) is type(getattr(expected, name))
        torch.testing.assert_close(after, getattr(expected, name), rtol=1e-12, atol=1e-14)


def test_an_update_of_vadam_takes_half_the_operations() -> None:
    state, estimates, args = operands(rules.vadam)
    args["kappa"] = args["mu0"] = 0.0
    g = estimates["g"]
    with Operations() as by_tensors:
        rules.vadam.update(rules.vadam.State(**state), g, g * g, **args)
    with Operations() as by_terms:
        new = rules.vadam.update(rules.vadam.State(**terms(state)), Term(g), Term(g) * Term(g), **args)
        [value(x) for x in new]
    assert by_terms.count <= 9  # with the constant of a sum
    assert by_tensors.count == 16


def test_arithmetic() -> None:
    x, y = torch.linspace(0.5, 2, 7), torch.linspace(1, 3, 7)
    a, b = Term(x), Term(y)
    pairs = [
        (2 * a + 3 * b, 2 * x + 3 * y),
        (a * b - 0.5 * a, x * y - 0.5 * x),
        (1 - 3 * (a / b), 1 - 3 * (x / y)),
        ((4 * a).sqrt() / (2 * b), (4 * x).sqrt() / (2 * y)),
        ((0 * a).sqrt() + a, x),
        (2 / (a * b) + a**2 - a**3, 2 / (x * y) + x**2 - x**3),
        ((-a * 2).clamp(min=-b), (-x * 2).clamp(min=-y)),
        (torch.sigmoid(2 * a), torch.sigmoid(2 * x)),
        (a + y, x + y),
        (y - 2 * a, y - 2 * x),
        (2 * a * y / x, 2 * y),
        (y / (2 * a), y / (2 * x)),
        (abs(-a) + 2**b, x + 2**y),
        (
            torch.where((a > 1) & ~(b >= 2.5) | (a == 0.5), 2 * a, b),
            torch.where((x > 1) & ~(y >= 2.5) | (x == 0.5), 2 * x, y),
        ),
        ((2 * a)[1:3] * (a < b)[1:3], 2 * x[1:3]),
        (torch.ones(a.shape, dtype=a.dtype) * a.mean(), torch.full_like(x, x.mean().item())),
    ]
    for found, expected in pairs:
        torch.testing.assert_close(value(found), expected)


def test_a_condition_on_terms_is_that_of_tensors() -> None:
    term = Term(torch.linspace(0.5, 2, 7))
    assert (term > 0).all()
    assert not (term > 1).all()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(term > 1)
    assert not hasattr(term, "no_method_of_a_tensor")
