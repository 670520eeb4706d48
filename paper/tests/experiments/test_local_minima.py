"""The landscape of App. L, and the ways to descend."""

from dataclasses import replace

import pytest
import torch

from vadam_paper.experiments.local_minima import descent
from vadam_paper.experiments.local_minima.config import preset
from vadam_paper.experiments.local_minima.landscape import gradient, objective, sharpness
from vadam_paper.experiments.local_minima.table import at_flat_minimum
from vadam_paper.experiments.randomness import generator

CONFIG = preset("smoke", "text")


def test_objective_by_hand() -> None:
    x, y = 0.3, -0.7
    a = x * torch.sin(torch.tensor(20 * y)) + y * torch.sin(torch.tensor(20 * x))
    b = x * torch.cos(torch.tensor(10 * y)) - y * torch.sin(torch.tensor(10 * x))
    assert objective(torch.tensor([x, y])).item() == pytest.approx(-torch.exp(-(a**2) - b**2).item(), rel=1e-5)


def test_the_line_x_0_is_lowest_and_flattest_at_the_origin() -> None:
    line = torch.stack([torch.zeros(9), torch.linspace(-1, 1, 9)], dim=1).double()
    assert objective(line).tolist() == pytest.approx([-1.0] * 9)
    assert sharpness(line)[4].item() == pytest.approx(2.0)
    assert sharpness(line).argmin() == 4


def test_gradient_by_differences() -> None:
    theta = torch.tensor([[0.31, -0.52], [0.8, 0.8]], dtype=torch.float64)
    step = 1e-6
    for j in range(2):
        e = torch.zeros(2, dtype=torch.float64)
        e[j] = step
        slope = (objective(theta + e) - objective(theta - e)) / (2 * step)
        torch.testing.assert_close(gradient(theta)[:, j], slope, rtol=1e-6, atol=1e-8)


def test_gradient_descent_goes_down() -> None:
    start = torch.tensor([[0.8, 0.8]], dtype=torch.float64)
    assert objective(descent.gradient_descent(CONFIG, start)) < objective(start)


def test_without_noise_the_seed_does_not_matter_and_with_it_it_does() -> None:
    start = torch.tensor([[0.8, 0.8]], dtype=torch.float64)
    still = descent.vadam_to_vadagrad(CONFIG, start, None)
    assert torch.equal(still, descent.vadam_to_vadagrad(CONFIG, start, None))
    one, two = (descent.vadam_to_vadagrad(CONFIG, start, generator(seed)) for seed in (0, 1))
    assert not torch.equal(one, two)


def test_a_shift_of_landscape_and_start_matters_through_the_prior_only() -> None:
    """Without a prior the moved problem is the same problem."""
    free = replace(CONFIG, prior_precision=1e-12)
    start = torch.tensor([[0.8, 0.8]], dtype=torch.float64)
    torch.testing.assert_close(
        descent.vadam_to_vadagrad(free, start, None), descent.vadam_to_vadagrad(free, start, None, shift=0.5)
    )


def test_flat_means_low_and_not_sharp() -> None:
    ends = {"objective": [-1.0, -1.0, -0.5], "sharpness": [2.0, 900.0, 2.0]}
    assert at_flat_minimum(ends).tolist() == [True, False, False]
