"""A method is what its rule declares: arguments, defaults, checks, names of the equations."""

import pickle

import numpy as np
import pytest
import torch

from vadam import rules
from vadam.ensemble import MLP, Member, Method, rule_names, train
from vadam.rules.arguments import contains

REQUIRED = {"vadagrad": {"init_precision": 100.0}}
BATCH_SIZE = 8
CANDIDATES = (0.5, float(BATCH_SIZE), 3.0, 50.0, 1e-3, False, True)
ACTS_WITH = {"exact_momentum": {"momentum": 0.9}, "start_in_step": {"init_precision": 50.0}}
ARGUMENTS = [
    pytest.param(name, argument, id=f"{name}-{argument.name}")
    for name in rule_names()
    for argument in rules.RULES[name].ARGUMENTS
]


def method(name, **settings):
    return Method(name, **{"lr": 0.01, **REQUIRED.get(name, {"prior_precision": 0.1}), **settings})


def weights_of(method):
    rng = np.random.default_rng(0)
    members = [Member(rng.normal(size=(20, 2)), rng.normal(size=20), seed=seed) for seed in range(2)]
    stack = train(members, MLP(2, 3, 1), method, epochs=2, batch_size=BATCH_SIZE).stack
    return torch.cat([value.flatten() for value in (*stack.mean.values(), *(stack.precision or {}).values())])


def test_the_rules_of_a_stack():
    assert {"adam", "bbvi", "ivon", "vadagrad", "vadam", "vogn", "vprop"} <= set(rule_names())
    assert not {"von", "full_von", "natural_momentum"} & set(rule_names())


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_every_declared_argument_has_an_effect(name, argument):
    """None is declared and then ignored: some other value that it allows gives other weights."""
    settings = ACTS_WITH.get(argument.name, {})
    usual = weights_of(method(name, **settings))
    changed = (weights_of(method(name, **settings | {argument.name: x})) for x in others(argument))
    assert any(not torch.equal(usual, weights) for weights in changed)


def others(argument):
    """Return values that an argument allows."""
    pairs = isinstance(argument.default, tuple)
    return [(x,) * len(argument.default) if pairs else x for x in CANDIDATES if allowed(argument, x)]


def allowed(argument, value):
    if argument.interval == "bool":
        return isinstance(value, bool)
    return contains(argument.interval, value)


@pytest.mark.parametrize("name", rule_names())
def test_arguments_as_tensors_are_arguments_as_numbers(name):
    """A rule computes the names of the equations for E members at once as for each alone."""
    values = {**method(name).settings, "num_data": 20.0, "prior_precision": 2.0}
    values["init_precision"] = values.get("init_precision") or 40.0
    rows = [
        {**values, "lr": 0.1, "num_data": 20.0, "prior_precision": 2.0},
        {**values, "lr": 0.2, "num_data": 30.0, "prior_precision": 5.0},
    ]
    varying = ("lr", "num_data", "prior_precision")
    columns = {n: torch.tensor([[row[n]] for row in rows], dtype=torch.float64) for n in varying}
    together = rules.RULES[name].rule_args({**values, **columns})
    for e, row in enumerate(rows):
        for letter, value in rules.RULES[name].rule_args(row).items():
            found = together[letter]
            own = float(found[e]) if isinstance(found, torch.Tensor) else found
            assert own == pytest.approx(value, rel=1e-12), letter


@pytest.mark.parametrize("name", rule_names())
def test_a_method_is_a_value(name):
    one, other = method(name, samples=2), method(name, samples=3)
    assert one == method(name, samples=2) != other
    assert hash(one) == hash(method(name, samples=2))
    assert one.replace(samples=3) == other
    assert pickle.loads(pickle.dumps(one)) == one
    assert eval(repr(one)) == one
    assert Method(name, **one.as_dict()) == one


def test_pairs_may_be_lists():
    assert Method("vadam", betas=[0.9, 0.99]) == Method("vadam", betas=(0.9, 0.99))


def test_momentum_chooses_its_rule():
    assert Method("vogn", momentum=0.9).rule is rules.natural_momentum
    assert Method("vogn", momentum=0.9, exact_momentum=True).rule is rules.exact_momentum
    assert Method("vprop", momentum=0.9).rule is rules.vprop_momentum
    assert Method("vogn").rule is rules.vogn


@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("sgd", {}, ValueError, "unknown method 'sgd': choose one of 'adam', 'bbvi'"),
        ("von", {}, ValueError, "unknown method 'von'"),
        ("vadam", {"beta": 0.9}, TypeError, "vadam has no argument 'beta': it has lr, betas, num_data"),
        ("vadam", {"betas": (0.9, 1.0)}, ValueError, r"betas\[1\] must be in \[0, 1\), got 1.0"),
        ("vadam", {"lr": None}, ValueError, r"lr must be in \[0, inf\), got None"),
        ("vadam", {"samples": 0}, ValueError, "samples must be a whole number of at least 1, got 0"),
        ("vadagrad", {}, TypeError, "vadagrad needs init_precision: e.g. init_precision=1e4"),
    ],
)
def test_wrong_methods(name, settings, error, message):
    with pytest.raises(error, match=message):
        Method(name, **settings)
