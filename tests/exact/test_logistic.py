"""Bayesian logistic regression: optima against an independent optimiser and quadrature, published numbers, errors."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats
from torch import nn

from vadam.exact import logistic


def problem(seed, N, D, scale=1.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(N, D))
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-X @ rng.normal(size=D))), 1.0, -1.0)
    return X, y, rng.uniform(0.1, 2, size=D)


def expected_nll_by_trapezoids(margins, stddevs):
    """Return Σᵢ E log(1 + e^−z), z ~ N(marginᵢ, stddevᵢ²), on a dense grid, which is exact to rounding here."""
    u = torch.linspace(-12, 12, 401, dtype=torch.float64)
    weights = torch.exp(-(u**2) / 2) / torch.exp(-(u**2) / 2).sum()
    z = margins[:, None] + stddevs[:, None] * u
    return (torch.logaddexp(torch.zeros_like(z), -z) @ weights).sum()


def minimised(negative_elbo, start):
    """Minimise by scipy: L-BFGS first, then Powell's hybrid method on the gradient from torch's autograd."""

    def value_and_gradient(theta):
        theta = torch.tensor(theta, requires_grad=True)
        value = negative_elbo(theta)
        value.backward()
        return value.item(), theta.grad.numpy()

    near = optimize.minimize(
        value_and_gradient, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "maxiter": 5000}
    )
    solution = optimize.root(lambda theta: value_and_gradient(theta)[1], near.x, tol=1e-13)
    assert np.abs(value_and_gradient(solution.x)[1]).max() < 1e-9
    return torch.tensor(solution.x), value_and_gradient(solution.x)[0]


@pytest.mark.parametrize(("seed", "N", "D", "scale"), [(0, 30, 3, 1.0), (1, 8, 5, 2.0), (2, 40, 2, 0.3)])
def test_mean_field_against_scipy(seed, N, D, scale):
    X, y, lam = problem(seed, N, D, scale)
    A, lam_ = torch.tensor(y[:, None] * X), torch.tensor(lam)

    def negative_elbo(theta):
        m, s = theta[:D], theta[D:].exp()
        kl = 0.5 * (lam_ * (m**2 + s**2) - 1 - torch.log(lam_ * s**2)).sum()
        return expected_nll_by_trapezoids(A @ m, (A**2 @ s**2).sqrt()) + kl

    theta, value = minimised(negative_elbo, np.zeros(2 * D))
    fit = logistic.mean_field(X, y, lam)
    torch.testing.assert_close(fit.mean, theta[:D], rtol=0, atol=1e-8)
    torch.testing.assert_close(fit.stddev, theta[D:].exp(), rtol=0, atol=1e-8)
    assert fit.elbo == pytest.approx(-value, abs=1e-10)
    assert fit.nelbo_per_datum == pytest.approx(value / N, abs=1e-10)


@pytest.mark.parametrize(("seed", "N", "D"), [(3, 30, 3), (4, 6, 2)])
def test_full_gaussian_against_scipy(seed, N, D):
    X, y, lam = problem(seed, N, D)
    A, lam_ = torch.tensor(y[:, None] * X), torch.tensor(lam)
    below = torch.tril_indices(D, D, offset=-1)

    def cholesky_factor(theta):
        return torch.diag(theta[D : 2 * D].exp()).index_put(tuple(below), theta[2 * D :])

    def negative_elbo(theta):
        m, L = theta[:D], cholesky_factor(theta)
        kl = 0.5 * ((lam_ * (m**2 + L.square().sum(1))).sum() - D - lam_.log().sum()) - theta[D : 2 * D].sum()
        return expected_nll_by_trapezoids(A @ m, (A @ L).square().sum(1).sqrt()) + kl

    theta, value = minimised(negative_elbo, np.zeros(2 * D + below.shape[1]))
    fit = logistic.full_gaussian(X, y, lam)
    L = cholesky_factor(theta)
    torch.testing.assert_close(fit.mean, theta[:D], rtol=0, atol=1e-8)
    torch.testing.assert_close(fit.covariance, L @ L.T, rtol=0, atol=1e-8)
    assert fit.elbo == pytest.approx(-value, abs=1e-10)


def test_fixed_points():
    """At the optimum the precision is λ + the expected Hessian (mean-field: its diagonal), and the gradient is 0."""
    X, y, lam = problem(5, 50, 4)
    for fit in (logistic.mean_field(X, y, lam), logistic.full_gaussian(X, y, lam)):
        V = fit.covariance if fit.covariance.dim() == 2 else torch.diag(fit.covariance)
        A, Lambda = torch.tensor(y[:, None] * X), torch.diag(torch.tensor(lam))
        w = fit.mean + torch.distributions.MultivariateNormal(torch.zeros(4).double(), V).sample((200_000,))
        p = torch.sigmoid(-(w @ A.T))
        expected_precision = Lambda + A.T @ ((p * (1 - p)).mean(0)[:, None] * A)
        gradient = -A.T @ p.mean(0) + Lambda @ fit.mean
        assert gradient.abs().max() < 0.05  # 200,000 draws: standard error about 0.005
        if fit.covariance.dim() == 2:
            torch.testing.assert_close(fit.precision, expected_precision, rtol=0, atol=0.05)
        else:
            torch.testing.assert_close(fit.precision, expected_precision.diagonal(), rtol=0, atol=0.05)


def test_elbos_are_ordered_below_the_evidence():
    X, y, _ = problem(6, 15, 2)

    def joint(b, a):
        return math.exp(-np.logaddexp(0, -y * (X @ [a, b])).sum() - a * a - b * b) / math.pi

    log_evidence = math.log(integrate.dblquad(joint, -6, 6, -6, 6, epsabs=1e-14, epsrel=1e-8)[0])
    mean_field, full = logistic.mean_field(X, y, 2.0).elbo, logistic.full_gaussian(X, y, 2.0).elbo
    assert mean_field < full < log_evidence
    assert log_evidence - full < 0.05


def test_elbo_of_any_gaussian():
    """The ELBO equals scipy's adaptive quadrature with torch's KL divergence."""
    X, y, lam = problem(7, 6, 3)
    m, L = np.array([0.3, -2.0, 1.0]), np.array([[3.0, 0, 0], [1, 0.5, 0], [-1, 0.2, 2]])
    for V in (np.diag(L) ** 2, L @ L.T):
        matrix = V if V.ndim == 2 else np.diag(V)
        expected = 0.0
        for a in y[:, None] * X:
            mu, sd = a @ m, math.sqrt(a @ matrix @ a)
            inside = [p for p in (0.0, mu) if abs(p - mu) < 10 * sd]
            expected -= integrate.quad(
                lambda z, mu=mu, sd=sd: np.logaddexp(0, -z) * stats.norm.pdf(z, mu, sd),
                mu - 12 * sd, mu + 12 * sd, points=inside, epsabs=1e-13, epsrel=1e-13, limit=500,
            )[0]  # fmt: skip
        q = torch.distributions.MultivariateNormal(torch.tensor(m), torch.tensor(matrix))
        p = torch.distributions.MultivariateNormal(
            torch.zeros(3).double(), precision_matrix=torch.diag(torch.tensor(lam))
        )
        expected -= torch.distributions.kl_divergence(q, p).item()
        assert logistic.elbo(X, y, m, V, lam).item() == pytest.approx(expected, abs=1e-10)


def test_probability_and_log_loss():
    X, y, lam = problem(8, 20, 3, scale=3.0)
    fit = logistic.full_gaussian(X, y, lam)
    probabilities = []
    for x in X:
        mu, sd = x @ fit.mean.numpy(), math.sqrt(x @ fit.covariance.numpy() @ x)
        f = lambda u, mu=mu, sd=sd: stats.norm.pdf(u) / (1 + np.exp(-mu - sd * u))  # noqa: E731
        probabilities.append(integrate.quad(f, -12, 12, epsabs=1e-13, epsrel=1e-13, limit=500)[0])
    np.testing.assert_allclose(fit.probability(X), probabilities, atol=1e-12)
    of_labels = np.where(y == 1, probabilities, 1 - np.array(probabilities))
    assert fit.log_loss(X, y).item() == pytest.approx(-np.log(of_labels).mean(), abs=1e-11)


def test_labels_and_types():
    X, y, _ = problem(9, 20, 2)
    fits = [
        logistic.mean_field(X, y, 1.0),
        logistic.mean_field(X, (y + 1) / 2, [1.0, 1.0]),
        logistic.mean_field(torch.tensor(X), torch.tensor(y > 0), torch.ones(2)),
    ]
    for fit in fits[1:]:
        torch.testing.assert_close(fit.mean, fits[0].mean, rtol=0, atol=0)
        assert fit.elbo == fits[0].elbo


def test_posterior_of_a_linear_layer():
    X, y, lam = problem(10, 20, 3)
    layer = nn.Linear(3, 1, bias=False)
    for fit in (logistic.mean_field(X, y, lam), logistic.full_gaussian(X, y, lam)):
        post = fit.posterior()
        assert post.sample(5)["weight"].shape == (5, *layer.weight.shape)
        expected_nll = fit.elbo + post.kl().item()
        assert expected_nll == pytest.approx(
            logistic.elbo(X, y, fit.mean, fit.covariance, lam).item() + post.kl().item()
        )
        assert post.symmetric_kl(post).item() == pytest.approx(0, abs=1e-9)


def test_nearly_flat_prior_on_separable_data():
    """The optimum runs far out, and Newton's method still finds it."""
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    for fit in (logistic.mean_field(X, y, 1e-8), logistic.full_gaussian(X, y, 1e-8)):
        assert fit.gradient_norm < 1e-10
        assert fit.mean.item() > 100
    assert logistic.mean_field(X, y, 1e-8).elbo == pytest.approx(logistic.full_gaussian(X, y, 1e-8).elbo, abs=1e-12)


@pytest.mark.parametrize(
    ("X", "y", "lam", "message"),
    [
        (np.ones((3, 2)), [1, 2, 1], 1.0, r"labels must be 0 and 1, or -1 and 1, but y holds \[1.0, 2.0\]"),
        (np.ones((3, 2)), [-1, 0, 1], 1.0, "labels must be"),
        (np.ones((3, 2)), [1, 0], 1.0, "X has 3 rows, but y has 2 labels"),
        (np.ones(3), [1, 0, 1], 1.0, r"X must be a matrix \[N, D\], but its shape is \[3\]"),
        (np.full((3, 2), np.nan), [1, 0, 1], 1.0, "X must be finite"),
        (np.ones((3, 2)), [1, 0, 1], 0.0, "prior_precision must be positive and finite, not 0.0"),
        (np.ones((3, 2)), [1, 0, 1], [1.0, 1.0, 1.0], "a number or a vector of length 2"),
    ],
)
def test_bad_input(X, y, lam, message):
    for fit in (logistic.mean_field, logistic.full_gaussian):
        with pytest.raises(ValueError, match=message):
            fit(X, y, lam)


def test_tolerance_out_of_reach(monkeypatch):
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 3)
    X, y, lam = problem(11, 20, 2)
    with pytest.raises(RuntimeError, match=r"after 3 iterations the gradient norm .* is above tolerance=-1\.0"):
        logistic.mean_field(X, y, lam, tolerance=-1.0)


def toy(data_file):
    table = np.loadtxt(data_file("toy/murphy.csv"), delimiter=",", skiprows=1)
    return table[:, :2], table[:, 2]


def test_toy_data_of_figure_2a(data_file):
    """The fit at λ = 0.01 without bias equals an independent optimum.

    Adaptive quadrature (scipy, 1e-13) with Nelder–Mead finds the same optimum; Gauss–Hermite with tens of nodes moves it by
    0.1 in the first mean. The authors' fit in the figure is (12.245, 4.421; 2.847, 1.257).
    """
    X, y = toy(data_file)
    fit = logistic.mean_field(X, y, 0.01)
    np.testing.assert_allclose(fit.mean, [12.211220, 4.406703], atol=2e-6)
    np.testing.assert_allclose(fit.stddev, [2.862502, 1.248562], atol=2e-6)
    assert fit.elbo == pytest.approx(-3.549525171, abs=1e-8)
    assert logistic.full_gaussian(X, y, 0.01).elbo == pytest.approx(-3.307444858, abs=1e-8)
    np.testing.assert_allclose(fit.mean, [12.245, 4.421], rtol=0.005)
    np.testing.assert_allclose(fit.stddev, [2.847, 1.257], rtol=0.01)


def test_breast_cancer_of_figure_2c(data_file):
    """nELBO/N without the bias prior's normaliser, as the authors count it: .11326."""
    datasets = pytest.importorskip("sklearn.datasets")
    features, labels = datasets.load_svmlight_file(str(data_file("libsvm/breast-cancer_scale")))
    X, y = np.c_[np.ones(683), features.toarray()], labels == 4
    train = np.argsort(np.random.RandomState(1).rand(683))[:341]
    lam = np.r_[1e-5, np.ones(10)]
    fit = logistic.mean_field(X[train], y[train], lam)
    without_bias = np.r_[0.0, np.ones(10)]
    elbo = logistic.elbo(X[train], y[train], fit.mean, fit.covariance, lam, prior_normaliser_mask=without_bias)
    assert -elbo.item() / 341 == pytest.approx(0.11326, abs=5e-6)
    assert elbo.item() - fit.elbo == pytest.approx(0.5 * math.log(1e5), abs=1e-10)


@pytest.mark.parametrize(("split", "log_loss"), [(1, 0.1221), (3, 0.1511)])
def test_usps_3vs5_of_figure_2b(data_file, split, log_loss):
    """The smallest and the largest test log-loss (nats) of the authors' 20 splits, where the figure's whiskers end."""
    usps = np.load(data_file("usps/usps_3vs5.npz"))
    X, y, lam = np.c_[np.ones(1540), usps["X"]], usps["digit"] == 3, np.r_[1e-5, np.full(256, 25.0)]
    train, test = usps["perm"][split][:770], usps["perm"][split][770:]
    assert logistic.mean_field(X[train], y[train], lam).log_loss(X[test], y[test]).item() == pytest.approx(
        log_loss, abs=5e-5
    )
