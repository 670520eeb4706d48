"""The noise: standard normal, independent between blocks, tensors and seeds, and the same for any number of threads."""

import math

import pytest
import torch
from torch import Tensor
from vadam.optim.kernels import CHUNK, Chunked, Task
from vadam.optim.noise import BLOCK, TILE, blocks
from vadam.optim.pieces import Piece

import vadam
from specs import SPECS, Spec, same, snapshot
from vadam import counter, rules
from vadam.optim import native

needs_numba = pytest.mark.skipif(not native.available(), reason='numba is not installed: pip install "vadam[fast]"')


def draw(size: int, seed: int, stream: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    piece = Piece({}, [torch.empty(size, dtype=dtype)], None, {})
    return torch.cat(
        [torch.empty(0, dtype=dtype), *(eps.clone() for _, eps in blocks(piece, seed, stream, Chunked().draw))]
    )


def ks_distance(x: torch.Tensor) -> float:
    """Kolmogorov–Smirnov distance to N(0, 1)."""
    x = x.double().flatten().sort().values
    n = x.numel()
    cdf = torch.special.ndtr(x)
    grid = torch.arange(n + 1, dtype=torch.float64) / n
    return float(torch.maximum((grid[1:] - cdf).abs(), (cdf - grid[:-1]).abs()).max())


def test_moments_and_distribution() -> None:
    """400,000 numbers over several chunks: each bound is four standard errors, that of the KS distance its 0.1 % point 1.95/√n."""
    x = draw(400_000, seed=1).double()
    n = x.numel()
    assert abs(float(x.mean())) < 4 / math.sqrt(n)
    assert abs(float(x.var()) - 1) < 4 * math.sqrt(2 / n)
    assert abs(float((x**3).mean())) < 4 * math.sqrt(15 / n)
    assert abs(float((x**4).mean()) - 3) < 4 * math.sqrt(96 / n)
    assert ks_distance(x) < 1.95 / math.sqrt(n)


def test_no_correlation_between_pieces_blocks_and_seeds() -> None:
    """Correlations of 100,000 pairs have a standard error of 0.0032; four of them are allowed. So for squares, of variance 2."""
    n = 100_000
    a, b, c = draw(n, seed=5), draw(n, seed=5, stream=1), draw(n, seed=6)
    long = draw(BLOCK + n, seed=5)
    halves = long[: BLOCK // 2][:n], long[BLOCK // 2 : BLOCK][:n]
    for x, y in ((a, b), (a, c), (long[:n], long[BLOCK:]), halves, (a[:-1], a[1:])):
        for power in (1, 2):
            assert abs(float(torch.corrcoef(torch.stack([x, y]) ** power)[0, 1])) < 4 / math.sqrt(n)


@pytest.mark.parametrize("shift", [0, 1, 163_713, -50_000])
def test_no_correlation_between_streams_whose_first_keys_are_close(shift: int) -> None:
    """Two streams in a thousand are, of those that a long training draws: none may run behind another. Radii, which one hash decides."""
    n = 200_000
    generator = torch.Generator().manual_seed(abs(shift))
    low, high = max(0, shift), n + min(0, shift)
    for _ in range(20):
        k1, k2, other = (int(k) for k in torch.randint(-(2**30), 2**30, (3,), generator=generator))
        positions = torch.arange(low, high, dtype=torch.int32)
        first, second = (
            counter.unit(counter.bits(torch.tensor(key, dtype=torch.int32), at)[0], torch.float64)
            for key, at in (((k1, k2), positions), ((k1 + shift, other), positions - shift))
        )
        correlation = float(torch.corrcoef(torch.stack([first, second]))[0, 1])
        assert abs(correlation) < 5 / math.sqrt(len(positions))


@pytest.mark.parametrize("size", [0, 1, 2, 3, CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, BLOCK + 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_same_for_any_number_of_threads(size: int, dtype: torch.dtype) -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(draw(size, seed=9, dtype=dtype))
    finally:
        torch.set_num_threads(before)
    assert len(results[0]) == size
    assert all(torch.equal(results[0], other) for other in results[1:])


def noise_alone(rule: object, vectors: list[Tensor]) -> list[Tensor]:
    return vectors[:1]


def draw_native(sizes: list[int], seed: int, stream: int) -> list[Tensor]:
    params = [torch.zeros(size) for size in sizes]
    task = Task(Piece({}, params, rules.von, {}), [params], [params], stream=stream)
    native.engine(True)(noise_alone, [task], seed)
    return params


@needs_numba
@pytest.mark.parametrize(
    "sizes", [[1], [2], [7], [300_001], [TILE], [BLOCK + 5], [3, 0, TILE, 1, 2 * TILE + 7, BLOCK, 9]], ids=str
)
def test_the_native_loop_draws_the_same_numbers(sizes: list[int]) -> None:
    """To 4e-6 for numbers up to 6: a few units in the last place of radius, sine and cosine."""
    for seed in range(3):
        plain = draw(sum(sizes), seed, stream=5)
        torch.testing.assert_close(torch.cat(draw_native(sizes, seed, stream=5)), plain, rtol=0, atol=4e-6)


@needs_numba
def test_the_native_loop_does_not_depend_on_threads() -> None:
    before = torch.get_num_threads()
    drawn = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            drawn.append(torch.cat(draw_native([600_000, 5, BLOCK], 1, 0)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


def test_small_and_large_tensors_have_noise_of_their_own() -> None:
    """Packed or not, no two weights share a number, and every one has variance 1/λ."""
    weights = [
        torch.nn.Parameter(torch.zeros(n)) for n in (3, 70_000, 5, 70_000, 1, 60_000, 60_000, 60_000, 60_000, 60_000)
    ]
    opt = vadam.Vadam(weights, num_data=1, prior_precision=4.0, generator=torch.Generator().manual_seed(0))
    with opt.sampled_params():
        drawn = [w.detach().clone() for w in weights]
    everything = torch.cat(drawn)
    assert len(everything.unique()) > 0.97 * len(everything)  # of 2²⁴ radii and 2³² angles, as float32
    for w in drawn:
        if len(w) > 10:
            assert abs(float(w.var()) * 4 - 1) < 4 * math.sqrt(2 / len(w))
    assert all(not w.any() for w in weights)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "context" in spec.ways and not spec.needs_attach], ids=str)
def test_training_is_the_same_for_any_number_of_threads(spec: Spec) -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            w = torch.nn.Parameter(torch.linspace(-1, 1, 2 * CHUNK + 40_003))
            opt = spec.make([w], generator=torch.Generator().manual_seed(0))
            for _ in range(3):
                opt.zero_grad()
                with opt.sampled_params():
                    w.grad = w.detach() - 1
                opt.step()
            results.append([w.detach(), *snapshot(opt)])
    finally:
        torch.set_num_threads(before)
    assert same(results[0], results[1])
    assert same(results[0], results[2])


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
