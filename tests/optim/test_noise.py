"""The noise: standard normal, independent between blocks, tensors and seeds, and the same for any number of threads."""

import math

import pytest
import torch

import vadam
from vadam.optim.noise import BLOCK, standard_normal


def ks_distance(x: torch.Tensor) -> float:
    """Kolmogorov–Smirnov distance to N(0, 1)."""
    x = x.double().flatten().sort().values
    n = x.numel()
    cdf = torch.special.ndtr(x)
    grid = torch.arange(n + 1, dtype=torch.float64) / n
    return float(torch.maximum((grid[1:] - cdf).abs(), (cdf - grid[:-1]).abs()).max())


def test_moments_and_distribution() -> None:
    """400,000 numbers over four blocks: each bound is four standard errors, that of the KS distance its 0.1 % point 1.95/√n."""
    x = standard_normal([torch.empty(400, 1000)], seed=1)[0].flatten().double()
    n = x.numel()
    assert abs(float(x.mean())) < 4 / math.sqrt(n)
    assert abs(float(x.var()) - 1) < 4 * math.sqrt(2 / n)
    assert abs(float((x**3).mean())) < 4 * math.sqrt(15 / n)
    assert abs(float((x**4).mean()) - 3) < 4 * math.sqrt(96 / n)
    assert ks_distance(x) < 1.95 / math.sqrt(n)


def test_no_correlation_between_tensors_blocks_and_seeds() -> None:
    """Correlations of 100,000 pairs have a standard error of 0.0032; four of them are allowed."""
    n = 100_000
    a, b = standard_normal([torch.empty(n), torch.empty(n)], seed=5)
    (c,) = standard_normal([torch.empty(n)], seed=6)
    (long,) = standard_normal([torch.empty(2 * BLOCK)], seed=5)
    first, second = long[:n], long[BLOCK : BLOCK + n]
    for x, y in ((a, b), (a, c), (first, second), (a[:-1], a[1:])):
        assert abs(float(torch.corrcoef(torch.stack([x, y]))[0, 1])) < 4 / math.sqrt(n)


@pytest.mark.parametrize("layout", [[(3,)], [(BLOCK + 5,), (7, 3)], [(2,), (0, 4), (BLOCK,), (BLOCK // 2, 2), (1,)]])
def test_the_same_for_any_number_of_threads(layout: list[tuple[int, ...]]) -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(standard_normal([torch.empty(shape) for shape in layout], seed=9))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], other, strict=True))


def test_training_is_the_same_for_one_and_two_threads() -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            w = torch.nn.Parameter(torch.zeros(2 * BLOCK + 3))
            opt = vadam.Vadam([w], lr=0.01, num_data=10, generator=torch.Generator().manual_seed(0))

            def closure(w=w, opt=opt):
                opt.zero_grad()
                loss = (w - 1).square().mean()
                loss.backward()
                return loss

            for _ in range(3):
                opt.step(closure)
            results.append(w.detach().clone())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_sampling_precision_acts_on_samples_alone() -> None:
    """App. K: θ ~ N(μ, 1/(N s + λ + c)); the posterior and the update know nothing of c."""
    drawn, posts = [], []
    for c in (0.0, 96.0):
        w = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
        generator = torch.Generator().manual_seed(0)
        opt = vadam.Vadam([w], num_data=1, prior_precision=4.0, sampling_precision=c, generator=generator)
        with opt.sampled_params():
            drawn.append(w.detach() - 1)
        posts.append(opt.posterior())
    torch.testing.assert_close(drawn[1], drawn[0] * math.sqrt(4 / 100))
    assert torch.equal(posts[0].precision["0"], posts[1].precision["0"])
