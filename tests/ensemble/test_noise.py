"""The hashed noise is as good as independent Gaussians for what a test can see."""

import numpy as np
import pytest
import scipy.stats
import torch

from vadam import counter_rng
from vadam.ensemble import noise
from vadam.ensemble.noise import Stream


def draws(seeds, steps, n, dtype=torch.float64):
    key = noise.keys(seeds, steps, Stream.WEIGHTS).flatten(0, 1)
    return noise.normals(key, n, dtype)


def test_moments():
    """2 million numbers: the k-th moment's standard error is √(E ε²ᵏ − (E εᵏ)²)/√n; four of them is the tolerance."""
    x = draws(range(20), range(10), 10_000).flatten()
    for k, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs((x**k).mean() - moment) < 4 * (variance / len(x)) ** 0.5, k


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distribution(dtype):
    """Kolmogorov–Smirnov on all, and on each quarter of the positions; p below 1e-4 would be a fault."""
    x = draws(range(10), range(10), 10_000, dtype).double()
    for part in (x, *x.split(2500, dim=1)):
        assert scipy.stats.kstest(part.flatten().numpy(), "norm").pvalue > 1e-4
    assert 4.4 < x.abs().max() < 6.0  # of a million: the largest is 4.9 on average


def test_tails():
    """Counts beyond 2, 3 and 4 are binomial."""
    x = draws(range(20), range(10), 10_000).flatten()
    for level in (2.0, 3.0, 4.0):
        count = int((x.abs() > level).sum())
        assert scipy.stats.binomtest(count, len(x), 2 * scipy.stats.norm.sf(level)).pvalue > 1e-4


@pytest.mark.parametrize("power", [1, 2])
def test_rows_are_uncorrelated(power):
    """Neighbouring seeds, steps and streams: correlations of 10,000 numbers have standard error 0.01."""
    key = torch.cat(
        [noise.keys(range(8), range(8), stream).flatten(0, 1) for stream in (Stream.WEIGHTS, Stream.DROPOUT)]
    )
    x = noise.normals(key, 10_000, torch.float64) ** power
    off_diagonal = np.corrcoef(x.numpy()) - np.eye(len(x))
    assert np.abs(off_diagonal).max() < 0.055  # the largest of 8128 pairs: 5.5 standard errors
    assert off_diagonal.std() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("power", [1, 2])
def test_positions_are_uncorrelated(power):
    """Lags 1 to 64, and the two numbers of a pair; n products give a standard error of 1/√n."""
    x = draws(range(100), [3], 10_000) ** power
    x = (x - x.mean()) / x.std()
    for lag in (1, 2, 3, 4, 7, 8, 16, 31, 32, 64, 5000):
        assert abs((x[:, lag:] * x[:, :-lag]).mean()) < 5 / x[:, lag:].numel() ** 0.5, lag


def test_bits_are_balanced():
    """Every bit of both hashes is set half of the time, and flips half of the time when the position grows by one."""
    key = noise.keys(range(50), range(4), Stream.WEIGHTS).flatten(0, 1)
    for bits in counter_rng.bits(key, torch.arange(5_000, dtype=torch.int32)):
        word = bits.numpy().view(np.uint32)
        for values in (word, word[:, 1:] ^ word[:, :-1]):
            share = [((values >> np.uint32(i)) & np.uint32(1)).mean() for i in range(32)]
            assert np.abs(np.array(share) - 0.5).max() < 5 * 0.5 / values.size**0.5


def test_uniforms():
    key = noise.keys(range(10), range(10), Stream.DROPOUT).flatten(0, 1)
    u = noise.uniforms(key, 10_000, torch.float64)
    assert 0 < u.min() < u.max() < 1
    assert scipy.stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-4
    assert torch.equal(noise.uniforms(key, 100, torch.float64), u[:, :100])


def test_keys_depend_on_everything():
    key = noise.keys([0, 1, -1, 2**63], range(1000), Stream.WEIGHTS)
    others = noise.keys([0, 1, -1, 2**63], range(1000), Stream.EVALUATION)
    both = torch.cat([key.flatten(0, 1), others.flatten(0, 1)])
    assert len(both.unique(dim=0)) == len(both) == 8000


def test_seed_gives_the_same_numbers_on_every_machine():
    key = noise.keys([123], [45], Stream.WEIGHTS)[0]
    expected = [0.42072528066283926, 0.7091930848783152, 1.8449282675054255, -2.011896247461278]
    assert noise.normals(key, 4, torch.float64)[0].tolist() == pytest.approx(expected, rel=1e-12)
