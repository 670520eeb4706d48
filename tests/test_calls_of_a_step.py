"""Python in a step: on small networks a step costs what its calls of functions cost."""

import cProfile
import pstats

import pytest
import torch
from torch import nn

import vadam
from vadam.backends import has_native

BEFORE = 1901  # calls in the same step before there were backends; at most a quarter of them is allowed
STEPS = 20


@pytest.mark.skipif(not has_native(), reason="native loops need llvmlite")
def test_a_step_of_a_small_network_makes_few_calls() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3))
    x, y = torch.randn(4, 7), torch.randint(3, (4,))
    opt = vadam.Vadam(model.parameters(), num_data=100).attach(model)

    def step() -> None:
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()

    for _ in range(3):
        step()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(STEPS):
        step()
    profiler.disable()
    assert pstats.Stats(profiler).total_calls / STEPS <= BEFORE / 4
