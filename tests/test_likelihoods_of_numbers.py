"""Likelihoods of numbers against torch.distributions and scipy, and the predictions that are made with them."""

import math

import numpy as np
import pytest
import torch
from scipy import special as scipy_special
from scipy import stats
from torch import distributions

from vadam import metrics
from vadam.likelihoods import Gaussian, InputNoiseGaussian, InputNoiseStudentT, NegativeBinomial, Poisson, StudentT
from vadam.prediction import Regression, predict
from vadam.special import betainc, student_t_cdf

B = 7


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def counts(*shape):
    return torch.randint(0, 12, shape, generator=torch.Generator().manual_seed(0)).double()


def of_poisson(f):
    return stats.poisson(f.exp().numpy())


def of_negative_binomial(f):
    mean, r = f.exp().numpy(), 2.5
    return stats.nbinom(r, r / (r + mean))


CASES = {
    "gaussian": (Gaussian(4.0), lambda f: stats.norm(f.numpy(), 0.5), randn(B, 3), randn(B, 3, seed=1)),
    "student": (StudentT(4.0, dof=3.5), lambda f: stats.t(3.5, f.numpy(), 0.5), randn(B, 3), randn(B, 3, seed=1)),
    "input noise": (
        InputNoiseGaussian(),
        lambda f: stats.norm(f[..., :3].numpy(), f[..., 3:].exp().numpy()),
        randn(B, 6),
        randn(B, 3, seed=1),
    ),
    "input noise, student": (
        InputNoiseStudentT(dof=3.5),
        lambda f: stats.t(3.5, f[..., :3].numpy(), f[..., 3:].exp().numpy()),
        randn(B, 6),
        randn(B, 3, seed=1),
    ),
    "poisson": (Poisson(), of_poisson, randn(B, 3), counts(B, 3)),
    "negative binomial": (NegativeBinomial(2.5), of_negative_binomial, randn(B, 3), counts(B, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_everything_is_scipys(name):
    likelihood, scipys, f, y = CASES[name]
    truth = scipys(f)
    density = truth.logpmf if likelihood.discrete else truth.logpdf
    np.testing.assert_allclose(likelihood.log_prob(f, y), density(y.numpy()).sum(1), rtol=1e-10)
    np.testing.assert_allclose(likelihood.nll(f, y), -density(y.numpy()).sum(1).mean(), rtol=1e-10)
    np.testing.assert_allclose(likelihood.mean(f), truth.mean(), rtol=1e-12)
    np.testing.assert_allclose(likelihood.std(f), truth.std(), rtol=1e-12)
    np.testing.assert_allclose(likelihood.cdf(f, y), truth.cdf(y.numpy()), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(likelihood.cdf(f, y - 20.5), truth.cdf(y.numpy() - 20.5), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_samples_have_the_moments(name):
    """100,000 draws of one target: mean and variance within five of their standard errors."""
    likelihood, scipys, f, _ = CASES[name]
    f, n = f[:1], 100_000
    draws = likelihood.sample(f.expand(n, -1), torch.Generator().manual_seed(0)).numpy()
    truth = scipys(f)
    assert (np.abs(draws.mean(0) - truth.mean()[0]) < 5 * truth.std()[0] / math.sqrt(n)).all()
    if "student" not in name:  # whose fourth moment is infinite
        error = np.sqrt(np.var((draws - draws.mean(0)) ** 2, axis=0) / n)
        assert (np.abs(draws.var(0) - truth.var()[0]) < 5 * error).all()
    else:
        median = truth.ppf(0.75)[0] - truth.mean()[0]  # of the absolute deviation
        assert (np.abs(np.median(np.abs(draws - truth.mean()[0]), 0) / median - 1) < 0.02).all()


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_torch_distributions(name):
    likelihood, _, f, y = CASES[name]
    f = f.clone().requires_grad_()
    (ours,) = torch.autograd.grad(likelihood.nll(f, y), f)
    theirs = {
        "gaussian": lambda: distributions.Normal(f, 0.5),
        "student": lambda: distributions.StudentT(3.5, f, 0.5),
        "input noise": lambda: distributions.Normal(f[..., :3], f[..., 3:].exp()),
        "input noise, student": lambda: distributions.StudentT(3.5, f[..., :3], f[..., 3:].exp()),
        "poisson": lambda: distributions.Poisson(f.exp()),
        "negative binomial": lambda: distributions.NegativeBinomial(2.5, logits=f - math.log(2.5)),
    }[name]()
    (expected,) = torch.autograd.grad(-theirs.log_prob(y).sum(1).mean(), f)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_prediction_is_the_mixture(name):
    """Moments by the laws of total expectation and variance, quantiles by their definition, from scipy's components."""
    likelihood, scipys, f, y = CASES[name]
    samples = f + randn(5, *f.shape, seed=2)
    pred = Regression(samples, likelihood)
    parts = scipys(samples)
    np.testing.assert_allclose(pred.mean, parts.mean().mean(0), rtol=1e-12)
    np.testing.assert_allclose(pred.epistemic, parts.mean().std(0), rtol=1e-9)
    np.testing.assert_allclose(pred.aleatoric, np.sqrt(parts.var().mean(0)), rtol=1e-12)
    np.testing.assert_allclose(pred.variance, parts.mean().var(0) + parts.var().mean(0), rtol=1e-9)
    np.testing.assert_allclose(pred.cdf(y), parts.cdf(y.numpy()).mean(0), rtol=1e-9)
    for q in (1e-4, 0.05, 0.5, 0.95, 0.999):
        found = pred.quantile(q).numpy()
        if likelihood.discrete:
            assert (parts.cdf(found).mean(0) >= q - 1e-12).all()
            assert (parts.cdf(found - 1).mean(0) < q).all()
        else:
            np.testing.assert_allclose(parts.cdf(found).mean(0), q, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_crps_is_that_of_many_draws(name):
    likelihood, _, f, y = CASES[name]
    pred = Regression(f.expand(40_000, *f.shape), likelihood)
    generator = torch.Generator().manual_seed(0)
    from_draws = metrics.crps(pred.draw(generator), y)
    small = Regression(f[None], likelihood)
    if isinstance(likelihood, Gaussian | InputNoiseGaussian):
        assert small.crps(y).item() == pytest.approx(from_draws.item(), rel=0.01)  # the closed form
    else:
        assert pred.crps(y, torch.Generator().manual_seed(1)).item() == pytest.approx(from_draws.item(), rel=0.02)


def test_predict_takes_all_of_them():
    from vadam.gaussian import MeanFieldGaussian

    model = torch.nn.Linear(1, 2, bias=False)
    post = MeanFieldGaussian({"weight": torch.zeros(2, 1)}, {"weight": torch.full((2, 1), 100.0)})
    for likelihood, targets in ((InputNoiseGaussian(), 1), (Poisson(), 2), (StudentT(1.0), 2)):
        pred = predict(model, post, torch.ones(4, 1), likelihood=likelihood)
        assert isinstance(pred, Regression)
        assert pred.mean.shape == pred.std.shape == (4, targets)
        low, high = pred.interval(0.9)
        assert (low < high).all()


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(2.0), InputNoiseGaussian(), StudentT(1.0)])
def test_the_loss_of_each_example_can_be_vmapped(likelihood):
    f, y = randn(B, 2), counts(B, 1 if isinstance(likelihood, InputNoiseGaussian) else 2)
    each = torch.vmap(lambda f, y: likelihood.nll(f[None], y[None]))(f, y)
    torch.testing.assert_close(each, -likelihood.log_prob(f, y), rtol=1e-12, atol=1e-12)


def test_betainc_is_scipys():
    rng = np.random.default_rng(0)
    a, b = 10 ** rng.uniform(-1, 4, (2, 2000))
    x = np.concatenate([scipy_special.betaincinv(a[:1000], b[:1000], rng.random(1000)), rng.random(1000)])
    found = betainc(*(torch.tensor(values) for values in (a, b, x)))
    np.testing.assert_allclose(found, scipy_special.betainc(a, b, x), atol=1e-10)
    ends = betainc(torch.ones(2), torch.full((2,), 3.0), torch.tensor([0.0, 1.0]))
    assert ends.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dof", [2.1, 4.0, 7.7, 300.0, 1e5])
def test_student_t_cdf_is_scipys(dof):
    t = np.array([-math.inf, -80.0, -3.0, -1e-3, -1e-6, 0.0, 0.5, 30.0, 1e200, math.inf])
    np.testing.assert_allclose(student_t_cdf(torch.tensor(t), dof), stats.t.cdf(t, dof), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("r", [1e6, 1e7, 9e8])
def test_a_negative_binomial_of_many_millions_is_scipys(r):
    mean = 1e8
    y = torch.tensor(np.round(mean + np.sqrt(mean + mean**2 / r) * np.array([-2.0, 0.0, 1.0])))
    f = torch.full_like(y, math.log(mean))
    wanted = stats.nbinom(r, r / (r + mean)).cdf(y.numpy())
    np.testing.assert_allclose(NegativeBinomial(r).cdf(f, y), wanted, atol=1e-5)


OUTLIERS = {
    "means": (Gaussian(1.0), lambda z: z, lambda f: stats.norm(f, 1.0)),
    "scales": (
        InputNoiseGaussian(),
        lambda z: torch.cat([0 * z, z.log()], -1),
        lambda f: stats.norm(f[..., :1], np.exp(f[..., 1:])),
    ),
    "counts": (Poisson(), torch.log, lambda f: stats.poisson(np.exp(f))),
    "dispersed counts": (
        NegativeBinomial(2.0),
        torch.log,
        lambda f: stats.nbinom(2.0, 2.0 / (2.0 + np.exp(f))),
    ),
}


@pytest.mark.parametrize("far", [1e6, 1e12, 1e25, 1e38])
@pytest.mark.parametrize("name", OUTLIERS)
def test_a_draw_far_from_the_others_leaves_the_quantiles_of_the_mixture(name, far):
    """Far from the data one of the draws may be huge: quantiles in single precision are those of the mixture all the same."""
    likelihood, outputs, scipys = OUTLIERS[name]
    centres = randn(64, 1, 1).float().exp()
    centres[5] = far
    samples = outputs(centres)
    parts = scipys(samples.double().numpy())
    pred = Regression(samples, likelihood)
    for q in (0.05, 0.5, 0.95):
        found = pred.quantile(q).double().numpy()
        if likelihood.discrete:
            assert parts.cdf(found).mean() >= q
            assert parts.cdf(found - 1).mean() < q
        else:
            np.testing.assert_allclose(parts.cdf(found).mean(), q, atol=1e-4)


def test_quantiles_of_draws_that_overflow_or_have_no_noise():
    pred = Regression(torch.tensor([[0.0], [0.0], [0.0], [200.0]]), Poisson())
    assert pred.quantile([0.05, 0.5]).flatten().tolist() == [0.0, 1.0]
    assert pred.quantile(0.95) > 1e37  # its mean is infinite in single precision
    certain = Regression(torch.tensor([[[5.0, -200.0]]] * 3), InputNoiseGaussian())
    torch.testing.assert_close(certain.quantile([0.05, 0.95]).flatten(), torch.tensor([5.0, 5.0]))
    assert Regression(torch.tensor([[math.nan], [0.0], [0.0]]), Poisson()).quantile(0.5).isnan().all()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: StudentT(1.0, dof=2.0), "dof=2.0 is not valid: give a number above 2"),
        (lambda: StudentT(0.0), "noise_precision=0.0 is not valid"),
        (lambda: Gaussian(torch.ones(B)).nll(randn(B, 1), randn(B)), "a number a row of shape [7, 1]"),
        (lambda: StudentT(torch.ones(B)).nll(randn(B, 1), randn(B)), "does not fit outputs of shape [7, 1]"),
        (lambda: Gaussian(torch.ones(1, 1)).nll(randn(B), randn(B)), "noise_precision of shape [1, 1] does not fit"),
        (lambda: NegativeBinomial(-1.0), "total_count=-1.0 is not valid"),
        (lambda: InputNoiseGaussian().nll(randn(B, 3), randn(B)), "two outputs for each target"),
        (lambda: InputNoiseGaussian().nll(randn(B), randn(B)), "outputs of shape [7] are not means"),
        (lambda: InputNoiseGaussian().nll(randn(B, 4), randn(B)), "do not fit outputs"),
    ],
)
def test_wrong_use_is_explained(act, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        act()
    assert message in str(error.value)


def test_a_noise_for_each_row_or_target_is_that_of_its_own():
    tau, f, y = randn(B, 3).exp(), randn(B, 3, seed=1), randn(B, 3, seed=2)
    for given in (tau, tau[:, :1], tau[0], tau[0, 0]):
        wanted = stats.norm(f.numpy(), given.expand(B, 3).rsqrt().numpy()).logpdf(y.numpy()).sum(1)
        np.testing.assert_allclose(Gaussian(given).log_prob(f, y), wanted, rtol=1e-12)


@pytest.mark.parametrize("r", [2.5, 1e4, 1e6, 1e8])
def test_counts_are_likely_as_scipy_says_in_single_precision(r):
    f = torch.tensor([1.0, 2.0, 9.0, 13.5])
    rate = f.double().exp().numpy()
    y = np.round(rate + np.sqrt(rate))
    of_targets, poisson, negative = torch.as_tensor(y).float(), stats.poisson(rate), stats.nbinom(r, r / (r + rate))
    np.testing.assert_allclose(Poisson().log_prob(f, of_targets), poisson.logpmf(y), rtol=1e-5)
    np.testing.assert_allclose(NegativeBinomial(r).log_prob(f, of_targets), negative.logpmf(y), rtol=1e-4)
    np.testing.assert_allclose(NegativeBinomial(r).cdf(f[:3], of_targets[:3]), negative.cdf(y)[:3], rtol=1e-4)


@pytest.mark.parametrize("r", [1e9, 1e12, 1e16, 1e30])
def test_a_negative_binomial_of_large_total_count_is_nearly_poisson(r):
    rate = np.array([0.1, 3.0, 100.0, 1e4])
    f, y = torch.as_tensor(np.log(rate)), np.floor(rate + np.sqrt(rate))
    wide = stats.nbinom(
        1e6, 1e6 / (1e6 + rate)
    )  # scipy itself rounds for larger ones; the difference is proportional to 1/r
    wanted = stats.poisson(rate).cdf(y) + (wide.cdf(y) - stats.poisson(rate).cdf(y)) * 1e6 / r
    np.testing.assert_allclose(NegativeBinomial(r).cdf(f, torch.as_tensor(y)), wanted, atol=1e-7)
    assert NegativeBinomial(r).cdf(f, -torch.ones(4)).tolist() == [0.0] * 4


@pytest.mark.parametrize("likelihood", [Gaussian, StudentT])
def test_a_noise_precision_is_not_rounded_to_half_precision(likelihood):
    f, y = torch.zeros(3, dtype=torch.float16, requires_grad=True), torch.full((3,), 0.001)
    loss, wanted = likelihood(1e5).nll(f, y), likelihood(1e5).nll(torch.zeros(3), y)
    loss.backward()
    torch.testing.assert_close(loss, wanted)
    assert f.grad.isfinite().all()


@pytest.mark.parametrize("name", CASES)
def test_an_error_beyond_the_root_of_half_precision_has_a_loss(name):
    likelihood, _, f, y = CASES[name]
    f, y = f.half(), (1000 * y).half()
    torch.testing.assert_close(likelihood.nll(f, y), likelihood.nll(f.float(), y.float()), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_the_cdf_of_a_column_is_that_of_its_own_rows(name):
    """Targets [B] against outputs [B, 1] would be a table of every target under every output."""
    likelihood, _, f, y = CASES[name]
    f, y = f[:, ::3], y[:, 0]
    wanted = likelihood.cdf(f, y[:, None])
    assert wanted.shape == (B, 1)
    torch.testing.assert_close(likelihood.cdf(f, y), wanted)
    if f.shape[1] == 1:
        torch.testing.assert_close(likelihood.cdf(f[:, 0], y[:, None]), wanted[:, 0])


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(1e6)])
def test_counts_beyond_64_bits_are_drawn(likelihood):
    f = torch.tensor([20.0, 40.0, 44.0, 60.0])
    torch.testing.assert_close(likelihood.sample(f, torch.Generator().manual_seed(0)), f.exp(), rtol=0.01, atol=0)


def test_noise_of_an_input_may_have_every_scale_and_none():
    """Far from the data a log scale of 60 is ordinary, and a NaN is for nonfinite="skip" to see."""
    likelihood, y = InputNoiseStudentT(), torch.ones(3, 1)
    outputs = torch.tensor([[1.0, 60.0], [1.0, -60.0], [0.0, 60.0]])
    wanted = [-math.log(4.0 / 1.5) - 60, -math.log(4.0 / 1.5) + 60, -math.log(4.0 / 1.5) - 60]
    torch.testing.assert_close(likelihood.log_prob(outputs, y), torch.tensor(wanted))
    draws = likelihood.sample(outputs, torch.Generator().manual_seed(0))
    assert draws.shape == (3, 1)
    assert draws.isfinite().all()
    assert likelihood.nll(outputs * math.nan, y).isnan()
    rows = torch.vmap(lambda f, y: likelihood.log_prob(f[None], y[None])[0])(outputs, y)
    torch.testing.assert_close(rows, torch.tensor(wanted))


@pytest.mark.parametrize("make", [NegativeBinomial, InputNoiseStudentT, lambda dof: StudentT(1.0, dof)])
def test_numbers_that_no_gradient_reaches_refuse_one(make):
    with pytest.raises(ValueError, match="is a number that no gradient reaches"):
        make(torch.tensor(4.0, requires_grad=True))
