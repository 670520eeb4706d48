"""Posteriors against torch.distributions, in float64."""

import copy
import pickle

import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal, kl_divergence

from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture, RotatedGaussian

SHAPES = {"a.weight": (3, 2), "a.bias": (3,), "scale": (), "empty": (0, 4)}


def random_mean_field(seed=0, prior=True, **kwargs):
    g = torch.Generator().manual_seed(seed)
    mean = {n: torch.randn(s, generator=g, dtype=torch.float64) for n, s in SHAPES.items()}
    precision = {n: 0.1 + 3 * torch.rand(s, generator=g, dtype=torch.float64) for n, s in SHAPES.items()}
    lam = {"a.weight": 0.5, "a.bias": torch.tensor([1.0, 2.0, 3.0]).double(), "scale": 4.0, "empty": 1.0}
    return MeanFieldGaussian(mean, precision, prior_precision=lam if prior else None, **kwargs)


def random_full(seed=0, **kwargs):
    root = torch.randn(10, 10, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    mean = torch.randn(10, generator=torch.Generator().manual_seed(seed + 100), dtype=torch.float64)
    lam = {"a.weight": 0.5, "a.bias": torch.tensor([1.0, 2.0, 3.0]).double(), "scale": 4.0, "empty": 1.0}
    shapes = {n: torch.Size(s) for n, s in SHAPES.items()}
    return FullGaussian(mean, root @ root.T + torch.eye(10), shapes, prior_precision=lam, **kwargs)


def random_rotated(seed=0, **kwargs):
    plain, g = random_mean_field(seed), torch.Generator().manual_seed(seed + 50)
    left, right = (torch.linalg.qr(torch.randn(n, n, generator=g, dtype=torch.float64))[0] for n in (3, 2))
    axes = {"left": {"a.weight": left}, "right": {"a.weight": right}}
    return RotatedGaussian(plain.mean, plain.precision, prior_precision=plain.prior_precision, **axes, **kwargs)


LAM = torch.tensor([0.5] * 6 + [1.0, 2.0, 3.0] + [4.0], dtype=torch.float64)


def oracle(post):
    if isinstance(post, RotatedGaussian):
        return rotated_oracle(post)
    mean, precision = post.flat()
    if isinstance(post, FullGaussian):
        return MultivariateNormal(mean, precision_matrix=precision)
    return Independent(Normal(mean, precision.rsqrt()), 1)


def rotated_oracle(post):
    """Build the covariance by its definition: each axis of the basis is a rank-one matrix q_L q_Rᵀ with a variance of its own."""
    covariance = torch.diag(torch.cat([1 / post.precision[name].flatten() for name in SHAPES]))
    P, Q_L, Q_R = post.precision["a.weight"], post.left["a.weight"], post.right["a.weight"]
    covariance[:6, :6] = 0
    for i in range(3):
        for j in range(2):
            axis = torch.outer(Q_L[:, i], Q_R[:, j]).flatten()
            covariance[:6, :6] += torch.outer(axis, axis) / P[i, j]
    return MultivariateNormal(torch.cat([post.mean[name].flatten() for name in SHAPES]), covariance)


def prior_oracle(post):
    zeros = torch.zeros(10, dtype=torch.float64)
    if isinstance(post, FullGaussian | RotatedGaussian):
        return MultivariateNormal(zeros, precision_matrix=LAM.diag())
    return Independent(Normal(zeros, LAM.rsqrt()), 1)


def flat(sample, lead=()):
    return torch.cat([sample[n].reshape(*lead, torch.Size(s).numel()) for n, s in SHAPES.items()], -1)


both = pytest.mark.parametrize("make", [random_mean_field, random_full, random_rotated])


@both
def test_density_entropy_and_divergences_equal_torch_distributions(make):
    p, q = make(1), make(2)
    one, many = p.sample(), p.sample(5)
    torch.testing.assert_close(p.log_prob(one), oracle(p).log_prob(flat(one)), rtol=1e-12, atol=0)
    torch.testing.assert_close(p.log_prob(many), oracle(p).log_prob(flat(many, (5,))), rtol=1e-12, atol=0)
    torch.testing.assert_close(p.entropy(), oracle(p).entropy(), rtol=1e-12, atol=0)
    torch.testing.assert_close(p.kl_to(q), kl_divergence(oracle(p), oracle(q)), rtol=1e-11, atol=0)
    torch.testing.assert_close(p.kl(), kl_divergence(oracle(p), prior_oracle(p)), rtol=1e-11, atol=0)
    both_ways = kl_divergence(oracle(p), oracle(q)) + kl_divergence(oracle(q), oracle(p))
    torch.testing.assert_close(p.symmetric_kl(q), both_ways / 2, rtol=1e-11, atol=0)
    assert p.kl_to(p).abs() < 1e-12


@both
def test_samples_have_the_moments_of_the_posterior(make):
    """n = 40,000: a mean has standard error σ/200 and a covariance at most σᵢσⱼ√2/200; five of these are allowed."""
    post, n = make(3), 40_000
    draws = flat(post.sample(n, generator=torch.Generator().manual_seed(0)), (n,))
    assert draws.shape == (n, 10)
    variance, mean = oracle(post).variance, oracle(post).mean
    sigma = variance.sqrt()
    expected = variance.diag() if isinstance(post, MeanFieldGaussian) else oracle(post).covariance_matrix
    assert ((draws.mean(0) - mean).abs() < 5 * sigma / n**0.5).all()
    assert ((draws.T.cov() - expected).abs() < 5 * sigma * sigma[:, None] * (2 / n) ** 0.5).all()


@both
def test_samples_come_from_the_generator_and_carry_the_points(make):
    post = make(point={"bn": torch.ones(2), "count": torch.tensor(3)})
    g = torch.Generator()
    first, second = (post.sample(3, generator=g.manual_seed(7)) for _ in range(2))
    assert all(torch.equal(first[n], second[n]) for n in first)
    assert set(first) == {*SHAPES, "bn", "count"}
    assert first["a.weight"].shape == (3, 3, 2)
    assert first["bn"].shape == (3, 2)
    assert first["count"].dtype == torch.int64
    assert post.sample(generator=g)["a.weight"].shape == (3, 2)
    assert not torch.equal(post.sample(3, generator=g)["a.weight"], first["a.weight"])
    assert post.log_prob(first).shape == (3,)  # points do not count
    assert post.num_weights == 10


def test_variance_and_stddev_are_those_of_the_precision():
    post = random_mean_field()
    for name, precision in post.precision.items():
        torch.testing.assert_close(post.variance[name], 1 / precision)
        torch.testing.assert_close(post.stddev[name], precision**-0.5)
    full = random_full()
    torch.testing.assert_close(full.variance, full.precision.inverse().diagonal())
    torch.testing.assert_close(full.stddev, full.precision.inverse().diagonal().sqrt())


def test_full_gaussian_of_a_mean_field_one_is_the_same_distribution():
    p, q = random_mean_field(1), random_mean_field(2)
    P, Q = FullGaussian.of(p), FullGaussian.of(q)
    draw = p.sample(4)
    torch.testing.assert_close(P.log_prob(draw), p.log_prob(draw), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(P.entropy(), p.entropy(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(P.kl(), p.kl(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(P.symmetric_kl(Q), p.symmetric_kl(q), rtol=1e-12, atol=1e-12)
    back = P.marginals()
    for name in SHAPES:
        torch.testing.assert_close(back.mean[name], p.mean[name])
        torch.testing.assert_close(back.precision[name], p.precision[name])


def test_mixture_density_equals_torch_distributions():
    parts = [random_mean_field(k) for k in range(3)]
    means, sigmas = (torch.stack([v[i] for v in (p.flat() for p in parts)]) for i in (0, 1))
    oracle = MixtureSameFamily(Categorical(torch.ones(3)), Independent(Normal(means, sigmas.rsqrt()), 1))
    draw = parts[0].sample(6)
    torch.testing.assert_close(Mixture(parts).log_prob(draw), oracle.log_prob(flat(draw, (6,))), rtol=1e-6, atol=1e-6)


def test_mixture_draws_every_component_equally_often_in_random_order():
    """The count of one of K = 4 components in n = 4000 draws has deviation √(n/K (1 − 1/K)) = 27; allowed are five."""
    parts = [
        MeanFieldGaussian({"w": torch.full((2,), float(k))}, {"w": torch.full((2,), 1e8)}, point={"k": torch.tensor(k)})
        for k in range(4)
    ]
    draws = Mixture(parts).sample(4000, generator=torch.Generator().manual_seed(0))
    which = draws["w"][:, 0].round().long()
    assert torch.equal(which, draws["k"])  # points come from the same component as the weights
    assert (which.bincount(minlength=4) - 1000).abs().max() < 5 * 27
    assert (which.diff() != 0).sum() > 2500  # 3000 expected when the order is random
    single = Mixture(parts).sample(generator=torch.Generator().manual_seed(1))
    assert single["w"].shape == (2,)
    assert single["k"].shape == ()


def test_a_posterior_owns_its_tensors():
    live = torch.zeros(3)
    post = MeanFieldGaussian({"w": live}, {"w": torch.ones(3)}, point={"b": live})
    live.fill_(7)
    assert post.mean["w"].eq(0).all()
    assert post.point["b"].eq(0).all()
    with pytest.raises(AttributeError):
        post.mean = {}


@pytest.mark.parametrize(
    "post", [random_mean_field(), random_full(), Mixture([random_mean_field(), random_mean_field(1)])]
)
def test_to_pickle_deepcopy_and_repr(post):
    single = post.to(torch.float32)
    assert single.sample()["a.weight"].dtype == torch.float32
    draw = post.sample(2, generator=torch.Generator().manual_seed(0))
    for other in (pickle.loads(pickle.dumps(post)), copy.deepcopy(post)):
        again = other.sample(2, generator=torch.Generator().manual_seed(0))
        assert all(torch.equal(draw[n], again[n]) for n in draw)
    assert "10 weights in 4 tensors" in repr(post)


def test_half_precision_weights_are_drawn_and_summed_in_single_precision():
    mean, precision = {"w": torch.zeros(50_000, dtype=torch.bfloat16)}, {"w": torch.full((50_000,), 2.0)}
    post = MeanFieldGaussian(mean, precision, prior_precision={"w": 2.0})
    assert post.sample()["w"].dtype == torch.bfloat16
    assert post.log_prob(post.sample()).dtype == torch.float32
    assert post.kl() == 0
    torch.testing.assert_close(post.entropy(), 50_000 * Normal(0.0, 0.5**0.5).entropy(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", [MeanFieldGaussian, RotatedGaussian])
def test_the_order_of_the_precisions_does_not_matter(kind):
    post = kind(*({name: values[name] for name in order} for values, order in _in_two_orders()))
    full = FullGaussian.of(post) if kind is MeanFieldGaussian else post.full()
    draw = post.sample(3)
    torch.testing.assert_close(full.log_prob(draw), post.log_prob(draw))
    assert list(post.precision) == list(post.mean)


def _in_two_orders():
    mean, precision = ({"a": torch.full((2,), a), "b": torch.full((3,), b)} for a, b in ((0.0, 1.0), (1.0, 7.0)))
    return (mean, ("b", "a")), (precision, ("a", "b"))


@both
def test_another_precision_of_numbers_changes_no_density_and_divergence(make):
    p, q = make(1), make(2)
    single, draw = p.to(torch.float32), q.sample(3)
    torch.testing.assert_close(single.log_prob(draw), p.log_prob(draw), rtol=1e-4, atol=0)
    torch.testing.assert_close(single.kl_to(q), p.kl_to(q), rtol=1e-4, atol=0)
    torch.testing.assert_close(q.kl_to(single), q.kl_to(p), rtol=1e-4, atol=0)


@pytest.mark.parametrize("convert", [FullGaussian.of, lambda post: RotatedGaussian.of(post).full()])
def test_half_precision_weights_as_a_full_gaussian(convert):
    post = random_mean_field(1).to(torch.bfloat16)
    full, exact = convert(post), FullGaussian.of(post.to(torch.float64))
    assert full.precision.dtype == torch.float32
    torch.testing.assert_close(full.entropy().double(), exact.entropy(), rtol=1e-5, atol=0)


def test_without_sampled_weights_there_is_only_the_point():
    post = MeanFieldGaussian({}, {}, point={"w": torch.ones(2)}, prior_precision={})
    for same in (
        post,
        FullGaussian.of(post),
        RotatedGaussian.of(post),
        RotatedGaussian.of(post).full(),
        post.prune(0.5)[1],
    ):
        assert same.sample(3)["w"].shape == (3, 2)
        assert same.entropy() == same.kl() == 0


ONE = {"w": torch.ones(2)}
BAD = {
    "missing precision": (lambda: MeanFieldGaussian(ONE, {}), "precision lacks 'w'"),
    "unknown precision": (lambda: MeanFieldGaussian(ONE, {**ONE, "v": torch.ones(1)}), "precision has 'v'"),
    "shape": (lambda: MeanFieldGaussian(ONE, {"w": torch.ones(3)}), "precision of 'w' has shape [3]"),
    "zero": (lambda: MeanFieldGaussian(ONE, {"w": torch.tensor([1.0, 0.0])}), "precision of 'w' must be positive"),
    "nan": (lambda: MeanFieldGaussian(ONE, {"w": torch.tensor([1.0, float("nan")])}), "but one is nan"),
    "twice": (lambda: MeanFieldGaussian(ONE, ONE, point=ONE), "'w' is both sampled and deterministic"),
    "scalar prior": (lambda: MeanFieldGaussian(ONE, ONE, prior_precision=1.0), "dict.fromkeys(mean, 1.0)"),
    "negative prior": (lambda: MeanFieldGaussian(ONE, ONE, prior_precision={"w": -1.0}), "prior precision of 'w'"),
    "prior shape": (lambda: MeanFieldGaussian(ONE, ONE, prior_precision={"w": torch.ones(3)}), "does not fit"),
    "prior axes": (lambda: MeanFieldGaussian(ONE, ONE, prior_precision={"w": torch.ones(2, 2)}), "does not fit"),
    "no prior": (lambda: MeanFieldGaussian(ONE, ONE).kl(), "has no prior"),
    "improper prior": (lambda: MeanFieldGaussian(ONE, ONE, prior_precision={"w": 0.0}).kl(), "improper prior"),
    "no draws": (lambda: MeanFieldGaussian(ONE, ONE).sample(0), "without the extra axis, got 0"),
    "other kind": (lambda: MeanFieldGaussian(ONE, ONE).kl_to(random_full()), "FullGaussian.of"),
    "other weights": (lambda: random_mean_field().kl_to(MeanFieldGaussian(ONE, ONE)), "other lacks 'a.bias'"),
    "sample names": (lambda: MeanFieldGaussian(ONE, ONE).log_prob({"v": torch.ones(2)}), "the sample lacks 'w'"),
    "sample shape": (lambda: MeanFieldGaussian(ONE, ONE).log_prob({"w": torch.ones(3)}), "must end in [2]"),
    "full sizes": (lambda: FullGaussian(torch.ones(2), torch.eye(3), {"w": torch.Size([2])}), "not [2] and [3, 3]"),
    "indefinite": (
        lambda: FullGaussian(torch.ones(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]]), {"w": torch.Size([2])}),
        "must be positive definite, but its first 2 rows and columns are not",
    ),
    "full, other kind": (lambda: random_full().kl_to(random_mean_field()), "convert it with FullGaussian.of"),
    "full of a rotated": (lambda: FullGaussian.of(random_rotated()), "a RotatedGaussian has full()"),
    "full, other weights": (
        lambda: random_full().kl_to(FullGaussian(torch.ones(2), torch.eye(2), {"w": torch.Size([2])})),
        "other must be over the same weights",
    ),
    "integers": (lambda: MeanFieldGaussian({"w": torch.ones(2).long()}, ONE), "mean of 'w' must be floating-point"),
    "to integers": (lambda: MeanFieldGaussian(ONE, ONE).to(torch.int32), "must be floating-point, got torch.int32"),
    "integer precision": (
        lambda: MeanFieldGaussian(ONE, {"w": torch.ones(2).long()}),
        "precision of 'w' must be float",
    ),
    "full, half": (lambda: random_full().to(torch.bfloat16), "precision must be of torch.float32 or torch.float64"),
    "full, integers": (lambda: random_full().to(torch.int64), "must be floating-point, got torch.int64"),
    "rotated, integers": (lambda: RotatedGaussian.of(random_mean_field()).to(torch.int64), "must be floating-point"),
    "mixture of mixtures": (lambda: Mixture([Mixture([random_mean_field()])]), "a Gaussian, got a Mixture"),
    "no components": (lambda: Mixture([]), "at least one component"),
    "components differ": (lambda: Mixture([MeanFieldGaussian(ONE, ONE), random_mean_field()]), "component 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_use_is_explained(case):
    act, message = BAD[case]
    with pytest.raises((ValueError, TypeError)) as error:
        act()
    assert message in str(error.value)


def test_a_rotated_gaussian_compares_with_the_others():
    p, q, full = random_rotated(1), random_mean_field(2), random_full(3)
    torch.testing.assert_close(p.kl_to(q), kl_divergence(oracle(p), dense(q)), rtol=1e-11, atol=0)
    torch.testing.assert_close(RotatedGaussian.of(q).kl_to(p), kl_divergence(dense(q), oracle(p)), rtol=1e-11, atol=0)
    expected = (kl_divergence(oracle(p), dense(q)) + kl_divergence(dense(q), oracle(p))) / 2
    torch.testing.assert_close(p.symmetric_kl(q), expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(p.full().kl_to(full), kl_divergence(oracle(p), oracle(full)), rtol=1e-11, atol=0)
    with pytest.raises(TypeError, match=r"not with FullGaussian; see full\(\)"):
        p.kl_to(full)
    Mixture([p, q]).sample(5)


def dense(post):
    mean, precision = post.flat()
    return MultivariateNormal(mean, precision_matrix=precision.diag())


def test_marginals_and_correlations_of_a_rotated_gaussian():
    post = random_rotated(4)
    covariance = oracle(post).covariance_matrix
    variance = torch.cat([v.flatten() for v in post.marginals().variance.values()])
    torch.testing.assert_close(variance, covariance.diagonal(), rtol=1e-12, atol=0)
    sigma = variance[:6].sqrt()
    torch.testing.assert_close(
        post.correlation("a.weight"), covariance[:6, :6] / torch.outer(sigma, sigma), rtol=1e-11, atol=1e-12
    )
    torch.testing.assert_close(
        post.tempered(2.0).marginals().variance["a.bias"], 2 * post.marginals().variance["a.bias"]
    )
    assert "a.weight" in str(post.summary())


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"left": {"w": torch.eye(2)}}, r"the left axes of 'w' must have shape \[3, 3\], not \[2, 2\]"),
        (
            {"right": {"w": torch.ones(2, 2)}},
            r"the right axes of 'w' are not orthogonal: QᵀQ differs from the identity by 2",
        ),
        ({"right": {"v": torch.eye(2)}}, r"right names 'v', but the weights are \['w'\]"),
    ],
)
def test_wrong_axes(axes, message):
    with pytest.raises(ValueError, match=message):
        RotatedGaussian({"w": torch.zeros(3, 2)}, {"w": torch.ones(3, 2)}, **axes)
