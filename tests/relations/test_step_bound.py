"""VON's bound of a step: what it bounds, and what it leaves alone."""

import math

import pytest
import torch
from torch import nn

import vadam

N = 60


def linear_regression(bound: float, **settings: float) -> tuple[vadam.MeanFieldGaussian, torch.Tensor, torch.Tensor]:
    """Return VON's posterior of a linear regression from antithetic samples, and the closed form: mean and precision."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 3, dtype=torch.float64, generator=g)
    y = X @ torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64) + 0.1 * torch.randn(N, dtype=torch.float64, generator=g)
    w = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    given = {"num_data": N, "prior": 0.5, "curvature": "exact", "samples": 2, "antithetic": True, "generator": g}
    opt = vadam.VON([w], lr=0.5, beta=0.98, step_bound=bound, **given, **settings)
    for _ in range(1500):
        opt.step(lambda: 2.0 * (X @ w - y).square().mean())
    hessian = 4.0 * X.T @ X
    mean = torch.linalg.solve(hessian + torch.eye(3), 4.0 * X.T @ y + 0.5)
    post = opt.posterior()
    return post, mean, hessian.diagonal() + 1


@pytest.mark.parametrize(("bound", "momentum"), [(1.0, 0.0), (0.3, 0.5), (math.inf, 0.0)])
def test_the_bound_leaves_the_posterior_of_a_linear_regression(bound: float, momentum: float) -> None:
    """Antithetic gradients of a quadratic have no noise, so both converge to rounding."""
    post, mean, precision = linear_regression(bound, momentum=momentum)
    torch.testing.assert_close(post.mean["0"], mean, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(post.precision["0"], precision, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("exact_momentum", [None, False, True])
def test_no_gradient_moves_a_weight_further_than_the_bound(exact_momentum: bool | None) -> None:
    """A gradient of 1e4 moves a weight by lr · step_bound, in every tensor; without the bound by lr · 1e4."""
    heavy = {} if exact_momentum is None else {"momentum": 0.5, "exact_momentum": exact_momentum}
    for bound, expected in ((0.2, 0.02), (math.inf, 1e3)):
        a, b = (nn.Parameter(torch.zeros(2, dtype=torch.float64)) for _ in range(2))
        opt = vadam.VON(
            [a, b], lr=0.1, num_data=1e12, prior_precision=0.0, curvature="exact", step_bound=bound, **heavy
        )
        loss = lambda a=a, b=b: 1e4 * a.sum() + 1e2 * b.sum() + 0.5 * (a.square().sum() + b.square().sum())  # noqa: E731
        opt.step(loss)
        assert a.abs().max().item() == pytest.approx(expected, rel=1e-6)
        assert b.abs().max().item() == pytest.approx(expected / 100, rel=1e-6)


def test_the_largest_gradient_fades_with_beta() -> None:
    w = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    opt = vadam.VON([w], lr=0.1, beta=0.9, num_data=1e12)
    for factor in (50.0, 1.0, 1.0):
        opt.zero_grad()
        with opt.sampled_params():
            (factor * w).sum().backward()
        opt.step()
    assert opt.state[w]["peak"].item() == pytest.approx(50 * 0.9**2)


def test_minibatches_of_a_skewed_loss_end_at_its_mean_not_its_median() -> None:
    """A bound by the gradient at hand would clip the rare example, and end at the median of the targets, −1, instead of their mean, 0.

    The tolerance is four standard errors: targets of standard deviation 3, averaged over 1,000 steps.
    """
    targets = torch.tensor([9.0] + [-1.0] * 9, dtype=torch.float64)
    g = torch.Generator().manual_seed(1)
    w = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    opt = vadam.VON([w], lr=0.1, num_data=1e6, curvature="exact", generator=g)
    seen = []
    for target in targets[torch.randint(10, (2000,), generator=g)]:
        opt.step(lambda target=target: 0.5 * (w - target).square().sum())
        seen.append(w.item())
    assert abs(sum(seen[1000:]) / 1000) < 4 * 3 / math.sqrt(1000)
