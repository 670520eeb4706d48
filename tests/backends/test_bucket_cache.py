"""Buckets are kept from step to step, and their arguments are those of the moment."""

from collections.abc import Callable
from typing import Any

import torch

import vadam
from specs import BY_NAME, Problem, same


def trained(change: Callable[[dict[str, Any]], None]) -> list[torch.Tensor]:
    """Take a step, let the arguments change while a sample is open, and take another."""
    problem, spec = Problem(torch.float32), BY_NAME["Vadam"]
    opt: vadam.VariationalOptimizer = spec.make_for(problem.model, generator=torch.Generator().manual_seed(0))
    (group,) = opt.param_groups
    group["betas"] = [0.9, 0.99]
    problem.step(opt, spec)
    opt.zero_grad()
    with opt.sampled_params():
        problem.loss().backward()
        change(group)
    opt.step()
    return problem.weights()


def test_arguments_that_change_between_draw_and_update_count() -> None:
    unchanged = trained(lambda group: None)
    in_place = trained(lambda group: group["betas"].__setitem__(0, 0.5))
    replaced = trained(lambda group: group.update(betas=(0.5, 0.99)))
    assert same(in_place, replaced)
    assert not same(in_place, unchanged)
    assert not same(trained(lambda group: group.update(lr=0.2)), unchanged)
