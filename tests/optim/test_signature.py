"""The typed signature of an optimizer is the declaration of its rule."""

import re
from inspect import Parameter, signature
from typing import Any

import pytest
from torch import nn

import vadam
from specs import SPECS, Problem, Spec
from vadam.optim.common_arguments import CommonArguments
from vadam.rules.arguments import REQUIRED

ONE_ROW_EACH = {spec.build: spec for spec in SPECS}


@pytest.mark.parametrize("spec", ONE_ROW_EACH.values(), ids=str)
def test_defaults_are_those_that_the_rule_declares(spec: Spec) -> None:
    parameters = signature(spec.build).parameters
    for argument in spec.build.rule.ARGUMENTS:
        if argument.name in parameters:
            default = parameters[argument.name].default
            assert default == argument.default or (default is Parameter.empty and argument.default is REQUIRED)
        else:
            assert argument.name in CommonArguments.__annotations__, f"{argument.name} is declared and cannot be given"


def test_vadam_describes_every_argument() -> None:
    """The other classes refer to Vadam for the arguments that they share with it."""
    described = set(re.findall(r"^ {8}(\w+): ", vadam.Vadam.__doc__ or "", re.MULTILINE))
    assert described == {*signature(vadam.Vadam).parameters, *CommonArguments.__annotations__} - {"common"}


@pytest.mark.parametrize("spec", ONE_ROW_EACH.values(), ids=str)
def test_arguments_that_the_rule_does_not_declare_are_kept(spec: Spec) -> None:
    declared = {argument.name for argument in spec.build.rule.ARGUMENTS}
    own = signature(spec.build).parameters.keys() - declared - {"params", "common"}
    opt = spec.make(Problem().model.parameters())
    for name in own:
        assert getattr(opt, name) == spec.kwargs.get(name, signature(spec.build).parameters[name].default)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_arguments_reach_the_groups(spec: Spec) -> None:
    opt = spec.make(Problem().model.parameters())
    (group,) = opt.param_groups
    declared = {argument.name for argument in spec.build.rule.ARGUMENTS}
    assert {name: group[name] for name in declared & spec.kwargs.keys()} == {
        name: value for name, value in spec.kwargs.items() if name in declared
    }


def test_positional_arguments_reach_the_groups() -> None:
    opt = vadam.Vadam([nn.Linear(1, 1).weight], 0.5, (0.1, 0.2), num_data=7, samples=3)
    assert (opt.param_groups[0]["lr"], opt.param_groups[0]["betas"], opt.samples) == (0.5, (0.1, 0.2), 3)


def test_a_subclass_may_have_a_signature_of_its_own() -> None:
    class Mine(vadam.Vadam):
        def __init__(self, params: Any, **settings: Any) -> None:
            super().__init__(params, num_data=11, **settings)

    opt = Mine([nn.Linear(1, 1).weight], lr=0.25)
    assert (opt.param_groups[0]["num_data"], opt.param_groups[0]["lr"]) == (11, 0.25)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'num_data'"):
        Mine([nn.Linear(1, 1).weight], num_data=3)


@pytest.mark.parametrize("spec", ONE_ROW_EACH.values(), ids=str)
def test_a_wrong_call_is_pythons_own_error(spec: Spec) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'params'"):
        spec.build(**spec.kwargs)
