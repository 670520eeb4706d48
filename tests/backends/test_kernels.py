"""Native code made from rules: which rules can be compiled, and that their functions are right to float32 precision."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

pytest.importorskip("llvmlite")

from vadam import rules
from vadam.backends import choose, kernels
from vadam.backends.bucket import Bucket
from vadam.rules import binding

RULES = [rule for rule in rules.RULES.values() if binding.scope(rule) == "weight" and binding.has_posterior(rule)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__.split(".")[-1])
def test_rules_are_arithmetic(rule: Any) -> None:
    assert kernels.is_arithmetic(rule)


def test_a_rule_of_whole_matrices_is_not_arithmetic() -> None:
    for rule in (rules.full_von, rules.evon):
        assert rule not in RULES
        assert not kernels.is_arithmetic(rule)


def test_the_loop_computes_the_rule() -> None:
    mu, g, s = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])
    rule_args = {"alpha": 0.1, "beta": 0.2, "N": 10.0, "lam": 5.0, "mu0": 0.0, "tau": 1.0, "kappa": 0.0}
    bucket = Bucket(rules.vprop, rule_args, [mu], [{"s": s, "s0": 0.0}])
    choose("native").update([bucket], {mu: g}, {})
    assert float(s) == pytest.approx(0.8 * 3 + 0.2 * 4)
    assert float(mu) == pytest.approx(1 - 0.1 * (2 + 0.5) / (math.sqrt(3.2) + 0.5))


class MeanOnly(NamedTuple):
    mu: Tensor


class WithScale(NamedTuple):
    mu: Tensor
    s: Tensor


def rule_of(function: Callable[[Tensor], Tensor]) -> Any:
    """Return a rule whose update writes a function of the gradient to the mean."""

    class Rule:
        State = MeanOnly

        @staticmethod
        def precision(state: MeanOnly) -> Tensor:
            return state.mu

        @staticmethod
        def update(state: MeanOnly, g: Tensor, h: Tensor) -> MeanOnly:
            return MeanOnly(function(g))

    return Rule


def test_a_rule_with_other_functions_is_left_to_torch() -> None:
    """Whatever the function is, and however it is called."""
    functions = [Tensor.tanh, torch.tanh, lambda g: g.tanh(), abs, lambda g: (g > 0) * g, lambda g: g**3]
    for function in [*functions, lambda g: softplus(g, beta=2.0)]:
        rule = rule_of(function)
        assert not kernels.is_arithmetic(rule)
        w, g = torch.zeros(5), torch.linspace(-1, 1, 5)
        choose("native").update([Bucket(rule, {}, [w], [{}])], {w: g}, {})
        torch.testing.assert_close(w, function(g))
    assert kernels.is_arithmetic(rule_of(lambda g: 2 * g - 1))


def test_both_functions_of_a_rule_count() -> None:
    class Rule:
        State = WithScale

        @staticmethod
        def precision(state: WithScale, *, lam: float) -> Tensor:
            return state.s.clamp(min=lam)

        @staticmethod
        def update(state: WithScale, g: Tensor, h: Tensor, *, alpha: float) -> WithScale:
            return state._replace(mu=state.mu - alpha * g)

    class Other(Rule):
        @staticmethod
        def precision(state: WithScale, *, lam: float) -> Tensor:
            return state.s.exp() + lam

    assert kernels.is_arithmetic(Rule)
    assert not kernels.is_arithmetic(Other)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus": softplus,
    "sigmoid": torch.sigmoid,
    "square root": lambda x: x.sqrt(),
    "reciprocal root": lambda x: x.rsqrt(),
    "square": lambda x: x.square(),
    "square by **": lambda x: x**2,
    "square below a fraction": lambda x: x**-2,
    "bounds": lambda x: x.clamp(min=-1.5, max=2.5),
    "arithmetic": lambda x: (1 - 3 * x) / (2 + x.square()) - (-x) / 7 + (5 - x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_rules(name: str) -> None:
    """To a few times the rounding of a float32, over all of its range; NaN stays NaN."""
    function = FUNCTIONS[name]
    x = torch.cat([torch.linspace(-86, 86, 100_001), torch.linspace(-3, 3, 100_001), torch.tensor([0.0, math.nan])])
    if "root" in name:
        x = x.abs()[x != 0]  # a precision of zero is refused before it is used
    w = nn.Parameter(torch.empty_like(x))
    rule = rule_of(function)
    assert kernels.is_arithmetic(rule)
    choose("native").update([Bucket(rule, {}, [w], [{}])], {w: x}, {})
    atol = 2e-6 if name == "arithmetic" else 0  # where terms cancel
    torch.testing.assert_close(w.detach().double(), function(x.double()), rtol=4e-7, atol=atol, equal_nan=True)
