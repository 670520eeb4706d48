"""Every backend against the plain one, in lock step with the same noise, for every optimizer."""

import inspect

import pytest
import torch
from torch import Tensor

from specs import SPECS, Problem, Spec, snapshot
from vadam import rules

OPTIONS = [{}, {"store_mean": False}, {"samples": 2, "antithetic": True}]


def trained(spec: Spec, backend: str, steps: int = 4, **options: object) -> list[Tensor]:
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), backend=backend, **options)
    for _ in range(steps):
        problem.step(opt, spec)
    return problem.weights() + snapshot(opt)


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_native(spec: Spec, options: dict[str, object]) -> None:
    """Single precision: a few roundings a step."""
    ours, plain = (trained(spec, backend, **options) for backend in ("native", "plain"))
    for x, y in zip(ours, plain, strict=True):
        torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_compiled(spec: Spec) -> None:
    """The compiled backend uses the same equations and noise; sums and logarithms may round differently."""
    ours, plain = (trained(spec, backend) for backend in ("compiled", "plain"))
    for x, y in zip(ours, plain, strict=True):
        torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5)


def test_every_rule_has_a_row() -> None:
    modules = {module for _, module in inspect.getmembers(rules, inspect.ismodule) if hasattr(module, "precision")}
    used = set()
    for spec in SPECS:
        opt = spec.make(Problem(torch.float32).model.parameters())
        used |= {opt.rule_of(group) for group in opt.param_groups}
    assert used == modules
