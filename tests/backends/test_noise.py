"""The noise: standard normal, independent between tensors and seeds, and the same for any number of threads."""

import math
from collections.abc import Iterator
from itertools import combinations

import pytest
import torch
from torch import Tensor, nn

import vadam
from specs import SPECS, Spec, same, snapshot
from vadam import counter_rng, rules
from vadam.backends import choose
from vadam.backends.bucket import make_buckets
from vadam.backends.chunks import CHUNK, SHARED
from vadam.backends.noise import NoiseSource

TILE = 1 << 12  # of the native loops
RULE_ARGS = {"N": 1.0, "lam": 1.0, "tau": 1.0, "sampling_precision": 0.0}
BACKENDS = ["plain", "native"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        pytest.importorskip("llvmlite")
    return request.param


@pytest.fixture
def threads() -> Iterator[None]:
    """Restore the number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def draw(
    backend: str, sizes: list[int], seed: int, dtype: torch.dtype = torch.float32, sign: float = 1.0
) -> list[Tensor]:
    """Return the noise of a sample; its weights, of mean 0 and precision 1, are the noise up to rounding."""
    params = [torch.zeros(size, dtype=dtype) for size in sizes]
    states = [{"s": torch.zeros_like(p)} for p in params]
    buckets = make_buckets(rules.von, RULE_ARGS, params, states, sampled=True)
    noise = NoiseSource(torch.Generator().manual_seed(seed))
    sample = choose(backend).draw(buckets, noise, sign, keep_mean=True)
    sample.perturb()
    eps = sample.noise()
    for p in params:
        torch.testing.assert_close(p, eps[p], rtol=1e-6, atol=0)
    return [eps[p] for p in params]


def ks_distance(x: Tensor) -> float:
    """Return the Kolmogorov-Smirnov distance to N(0, 1)."""
    x = x.double().flatten().sort().values
    n = x.numel()
    cdf = torch.special.ndtr(x)
    grid = torch.arange(n + 1, dtype=torch.float64) / n
    return float(torch.maximum((grid[1:] - cdf).abs(), (cdf - grid[:-1]).abs()).max())


def test_moments_and_distribution(backend: str) -> None:
    """400,000 numbers over several chunks: each bound is four standard errors, that of the KS distance its 0.1 % point 1.95/√n."""
    (x,) = (x.double() for x in draw(backend, [400_000], seed=1))
    n = x.numel()
    assert abs(float(x.mean())) < 4 / math.sqrt(n)
    assert abs(float(x.var()) - 1) < 4 * math.sqrt(2 / n)
    assert abs(float((x**3).mean())) < 4 * math.sqrt(15 / n)
    assert abs(float((x**4).mean()) - 3) < 4 * math.sqrt(96 / n)
    assert ks_distance(x) < 1.95 / math.sqrt(n)


def test_no_correlation_between_tensors_tiles_and_seeds(backend: str) -> None:
    """Correlations of 100,000 pairs have a standard error of 0.0032; four of them are allowed. So for squares, of variance 2."""
    n = 100_000
    (a, b), (c, _) = draw(backend, [n, n], seed=5), draw(backend, [n, n], seed=6)
    (long,) = draw(backend, [2 * CHUNK + n], seed=5)
    halves = long[: CHUNK // 2], long[CHUNK // 2 : CHUNK]
    tiles = long[: 30 * TILE].view(30, 2, TILE // 2)
    pairs = [(a, b), (a, c), (b, c), (long[:CHUNK], long[CHUNK : 2 * CHUNK]), halves, (a[:-1], a[1:])]
    pairs += [(a[:-TILE], a[TILE:]), (tiles[:, 0].flatten(), tiles[:, 1].flatten())]
    for x, y in pairs:
        for power in (1, 2):
            assert abs(float(torch.corrcoef(torch.stack([x, y]) ** power)[0, 1])) < 4 / math.sqrt(x.numel())


def test_no_correlation_between_small_tensors(backend: str) -> None:
    """Eight tensors of 2,000 numbers, which share buckets: the largest of 28 correlations is below four standard errors."""
    for x, y in combinations(draw(backend, [2000] * 8, seed=3), 2):
        assert abs(float(torch.corrcoef(torch.stack([x, y]))[0, 1])) < 4 / math.sqrt(2000)


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
            counter_rng.unit(counter_rng.bits(torch.tensor(key, dtype=torch.int32), at)[0], torch.float64)
            for key, at in (((k1, k2), positions), ((k1 + shift, other), positions - shift))
        )
        correlation = float(torch.corrcoef(torch.stack([first, second]))[0, 1])
        assert abs(correlation) < 5 / math.sqrt(len(positions))


def counted(size: int, seed: int, stream: int) -> Tensor:
    """Return the numbers of a stream as torch computes them: in each tile first the cosines, then the sines."""
    tiles = []
    for start in range(0, size, TILE):
        length = min(TILE, size - start)
        half = (length + 1) // 2
        positions = torch.arange(start // 2, start // 2 + half, dtype=torch.int32)
        pair = counter_rng.gaussian_pair(counter_rng.keys([seed], [stream])[0, 0], positions, torch.float32)
        tiles.append(torch.cat(pair)[:length])
    return torch.cat(tiles) if tiles else torch.empty(0)


@pytest.mark.parametrize(
    "sizes", [[1], [2], [7], [300_001], [TILE], [CHUNK + 5], [3, 0, TILE, 1, 2 * TILE + 7, CHUNK, 9]], ids=str
)
def test_the_native_loop_draws_the_numbers_of_the_counter(sizes: list[int]) -> None:
    """To 4e-6 for numbers up to 6: a few units in the last place of radius, sine and cosine."""
    pytest.importorskip("llvmlite")
    for seed in range(3):
        drawn = NoiseSource(torch.Generator().manual_seed(seed)).seed
        for stream, x in enumerate(draw("native", sizes, seed)):
            torch.testing.assert_close(x, counted(len(x), drawn, stream), rtol=0, atol=4e-6)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "sizes",
    [[0], [1], [2], [3], [CHUNK - 1], [2 * CHUNK], [2 * CHUNK + 1], [300_005], [600_000, 5, CHUNK, 0, TILE]],
    ids=str,
)
def test_the_same_for_any_number_of_threads(backend: str, sizes: list[int], dtype: torch.dtype) -> None:
    results = []
    for number in (1, 2, 3, 7):
        torch.set_num_threads(number)
        results.append(draw(backend, sizes, seed=9, dtype=dtype))
    assert [len(x) for x in results[0]] == sizes
    for other in results[1:]:
        assert same(results[0], other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_antithetic_pairs(backend: str, dtype: torch.dtype) -> None:
    """Samples come in pairs μ ± d; pairs are independent of each other."""
    w = nn.Parameter(torch.zeros(70_003, dtype=dtype))
    opt = vadam.Vadam([w], num_data=1, samples=4, antithetic=True, backend=backend)
    drawn = []
    for _ in range(4):
        with opt.sampled_params():
            drawn.append(w.detach().clone())
            w.sum().backward()
    assert torch.equal(drawn[0], -drawn[1])
    assert torch.equal(drawn[2], -drawn[3])
    correlation = torch.corrcoef(torch.stack([drawn[0], drawn[2]]).float())[0, 1]
    assert abs(float(correlation)) < 4 / math.sqrt(len(w))


def test_the_sign_of_a_sample_is_that_of_its_noise(backend: str) -> None:
    for x, y in zip(draw(backend, [5, 70_000], 1), draw(backend, [5, 70_000], 1, sign=-1.0), strict=True):
        assert torch.equal(x, -y)


def test_small_and_large_tensors_have_noise_of_their_own(backend: str) -> None:
    """In one bucket or not, no two weights share a number, and every one has variance 1/λ."""
    weights = [nn.Parameter(torch.zeros(n)) for n in (3, 70_000, 5, 70_000, 1, 60_000, 60_000, 60_000, 60_000, 60_000)]
    generator = torch.Generator().manual_seed(0)
    opt = vadam.Vadam(
        weights, num_data=1, prior_precision=4.0, init_precision="prior", generator=generator, backend=backend
    )
    with opt.sampled_params():
        drawn = [w.detach().clone() for w in weights]
    everything = torch.cat(drawn)
    assert len(everything.unique()) > 0.97 * len(everything)  # of 2²⁴ radii and 2³² angles, as float32
    for w in drawn:
        if len(w) > 10:
            assert abs(float(w.var()) * 4 - 1) < 4 * math.sqrt(2 / len(w))
    assert all(not w.any() for w in weights)


def test_every_sample_has_noise_of_its_own(backend: str) -> None:
    w = nn.Parameter(torch.zeros(10_000))
    opt = vadam.Vadam([w], num_data=1, backend=backend)
    drawn = []
    for _ in range(4):
        with opt.sampled_params():
            drawn.append(w.detach().clone())
    for x, y in combinations(drawn, 2):
        assert abs(float(torch.corrcoef(torch.stack([x, y]))[0, 1])) < 4 / math.sqrt(len(w))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("spec", [spec for spec in SPECS if "context" in spec.ways and not spec.needs_attach], ids=str)
def test_the_same_seed_is_the_same_run_for_any_number_of_threads(spec: Spec, backend: str) -> None:
    results = []
    for number in (1, 1, 2, 5, 7):
        torch.set_num_threads(number)
        weights = [
            nn.Parameter(torch.linspace(-1, 1, n)) for n in (2 * CHUNK + 5 * SHARED + 13, 7, 300, CHUNK // 2 + 1)
        ]
        opt = spec.make(weights, generator=torch.Generator().manual_seed(0), backend=backend)
        for _ in range(3):
            opt.zero_grad()
            with opt.sampled_params():
                for w in weights:
                    w.grad = w.detach() - 1
            opt.step()
        results.append([*(w.detach() for w in weights), *snapshot(opt)])
    for other in results[1:]:
        assert same(results[0], other)


@pytest.mark.usefixtures("threads")
def test_the_same_seed_is_the_same_run_when_compiled() -> None:
    spec, results = SPECS[0], []
    for number in (1, 1, 2):
        torch.set_num_threads(number)
        w = nn.Parameter(torch.linspace(-1, 1, 30_003))
        opt = spec.make([w], generator=torch.Generator().manual_seed(0), backend="compiled")
        for _ in range(3):
            with opt.sampled_params():
                w.grad = w.detach() - 1
            opt.step()
        results.append([w.detach(), *snapshot(opt)])
    assert same(results[0], results[1])
    assert same(results[0], results[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sampling_precision_acts_on_samples_alone(backend: str, dtype: torch.dtype) -> None:
    """App. K: θ ~ N(μ, 1/(N s + λ + c)); the posterior and the update know nothing of c."""
    drawn, posts = [], []
    for c in (0.0, 96.0):
        w = nn.Parameter(torch.zeros(5, dtype=dtype))
        options = {"generator": torch.Generator().manual_seed(0), "backend": backend}
        opt = vadam.Vadam([w], num_data=1, prior_precision=4.0, init_precision="prior", sampling_precision=c, **options)
        with opt.sampled_params():
            drawn.append(w.detach().clone())
        posts.append(opt.posterior())
    torch.testing.assert_close(drawn[1], drawn[0] * math.sqrt(4 / 100))
    assert torch.equal(posts[0].precision["0"], posts[1].precision["0"])
