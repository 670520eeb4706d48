"""Against what is true: closed-form posteriors, autograd through θ = μ + σε, an independent reading of IVON's equations."""

import math

import pytest
import torch
from torch import Tensor, nn

import vadam
from vadam import rules


class LinearProblem:
    """Bayesian linear regression: y = Xw + noise of precision ``tau``, w ~ N(0, 1/lam)."""

    def __init__(self, n: int = 60, d: int = 4, lam: float = 1.5, tau: float = 2.0) -> None:
        g = torch.Generator().manual_seed(0)
        mixing = torch.eye(d, dtype=torch.float64) + 0.4 * torch.randn(d, d, generator=g, dtype=torch.float64)
        self.X = torch.randn(n, d, generator=g, dtype=torch.float64) @ mixing
        self.y = (
            self.X @ torch.randn(d, generator=g, dtype=torch.float64)
            + torch.randn(n, generator=g, dtype=torch.float64) / tau**0.5
        )
        self.n, self.d, self.lam, self.tau = n, d, lam, tau
        self.precision = tau * self.X.T @ self.X + lam * torch.eye(d, dtype=torch.float64)
        self.mean = torch.linalg.solve(self.precision, tau * self.X.T @ self.y)

    def nll(self, w: Tensor) -> Tensor:
        return 0.5 * self.tau * (self.X @ w - self.y).square().mean() - 0.5 * math.log(self.tau / (2 * math.pi))


def test_von_finds_the_mean_field_posterior() -> None:
    """The paper's VON converges to the mean-field posterior of a linear regression.

    The Hessian is constant, so the precision converges exactly to the diagonal of the true precision. The noise of single
    samples enters the mean at the rate α, so with α_t falling as 1/t its error falls as 1/√t.
    """
    problem = LinearProblem()
    w = nn.Parameter(torch.zeros(problem.d, dtype=torch.float64))
    opt = vadam.VON(
        [w],
        lr=1.0,
        beta=0.9,
        num_data=problem.n,
        prior_precision=problem.lam,
        curvature="exact",
        init_precision="prior",
        step_bound=math.inf,
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 1 / (2 + 0.2 * t))
    for _ in range(3000):
        opt.step(lambda: problem.nll(w))
        scheduler.step()
    post = opt.posterior()
    torch.testing.assert_close(post.precision["0"], problem.precision.diag(), rtol=1e-10, atol=0)
    stddev = problem.precision.diag().rsqrt()
    # 1/√(0.2·3000/…) ≈ 0.05 a coordinate; 3 of them.
    assert ((post.mean["0"] - problem.mean).abs() / stddev).max() < 0.15


def test_full_von_finds_the_posterior() -> None:
    problem = LinearProblem()
    w = nn.Parameter(torch.zeros(problem.d, dtype=torch.float64))
    opt = vadam.FullVON([w], lr=1.0, beta=0.9, num_data=problem.n, prior_precision=problem.lam, init_precision="prior")
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 1 / (2 + 0.2 * t))
    for _ in range(800):
        opt.step(lambda: problem.nll(w))
        scheduler.step()
    post = opt.posterior()
    torch.testing.assert_close(post.precision, problem.precision, rtol=1e-9, atol=1e-9)
    error = (post.mean - problem.mean) @ problem.precision @ (post.mean - problem.mean)
    # A Mahalanobis distance in 4 dimensions; 800 samples at rates 1/(2 + 0.2t) leave about 0.15.
    assert error.sqrt() < 0.4


@pytest.mark.parametrize("curvature", ["reparam", "hutchinson"])
def test_von_estimates_converge_to_the_same_place(curvature: str) -> None:
    """Unbiased estimates of ĥ converge to the same precision.

    They are averaged over S/(1−β) ≈ 1600 draws. Each has a relative spread of about 2, so 20 % is four standard errors.
    """
    problem = LinearProblem()
    w = nn.Parameter(torch.zeros(problem.d, dtype=torch.float64))
    kwargs = {"num_data": problem.n, "prior_precision": problem.lam, "init_precision": 60.0}
    opt = vadam.VON([w], lr=0.05, beta=0.99, curvature=curvature, samples=16, antithetic=True, **kwargs)

    def closure():
        loss = problem.nll(w)
        if curvature == "reparam":
            opt.zero_grad()
            loss.backward()
        return loss

    for _ in range(600):
        opt.step(closure)
    post = opt.posterior()
    torch.testing.assert_close(post.precision["0"], problem.precision.diag(), rtol=0.2, atol=0)
    assert ((post.mean["0"] - problem.mean).abs() * problem.precision.diag().sqrt()).max() < 0.3


def test_bbvi_gradients_are_autograds() -> None:
    """The two gradients of −ELBO/N, against autograd through θ = μ + softplus(ρ)∘ε and torch's closed-form KL."""
    torch.manual_seed(0)
    n, lam = 25.0, 1.7
    mu = torch.randn(6, dtype=torch.float64, requires_grad=True)
    rho = torch.randn(6, dtype=torch.float64, requires_grad=True)
    eps = torch.randn(6, dtype=torch.float64)

    def f(theta: Tensor) -> Tensor:
        return (theta.sin() * torch.arange(1.0, 7.0)).sum() + theta.pow(4).mean()

    sigma = nn.functional.softplus(rho)
    theta = mu + sigma * eps
    q = torch.distributions.Normal(mu, sigma)
    p = torch.distributions.Normal(torch.zeros_like(mu), lam**-0.5)
    nelbo = f(theta) + torch.distributions.kl_divergence(q, p).sum() / n
    grad_mu, grad_rho = torch.autograd.grad(nelbo, (mu, rho))

    (g,) = torch.autograd.grad(f(leaf := theta.detach().requires_grad_()), leaf)
    state = rules.bbvi.init(mu.detach(), init_precision=1.0, N=n, lam=lam)._replace(rho=rho.detach())
    # After one step from zero moments Adam's first moment is (1 − γ₁) times the gradient it saw.
    new = rules.bbvi.update(state, g, g * eps / sigma.detach(), alpha=0.1, gamma1=0.9, gamma2=0.99, N=n, lam=lam)
    torch.testing.assert_close(new.m_mu / 0.1, grad_mu, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(new.m_rho / 0.1, grad_rho, rtol=1e-12, atol=1e-13)


def test_bbvi_is_adam_on_both_parameters() -> None:
    """The whole optimizer against torch's Adam on (μ, ρ), driven by autograd with the same noise."""
    n, lam = 25.0, 1.7
    target = torch.linspace(-1, 1, 5, dtype=torch.float64)
    w = nn.Parameter(torch.zeros(5, dtype=torch.float64))
    opt = vadam.BBVI([w], lr=0.05, betas=(0.9, 0.99), num_data=n, prior_precision=lam, init_precision=10.0, samples=3)
    mu = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    rho = torch.full((5,), math.log(math.expm1(10**-0.5)), dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([mu, rho], lr=0.05, betas=(0.9, 0.99), eps=1e-8)
    for _ in range(50):
        noise = []
        mean, stddev = w.detach().clone(), opt.posterior().stddev["0"].clone()

        def closure():
            noise.append((w.detach() - mean) / stddev)  # noqa: B023
            opt.zero_grad()
            loss = (w - target).pow(4).sum()
            loss.backward()
            return loss

        opt.step(closure)
        sigma = nn.functional.softplus(rho)
        loss = sum((mu + sigma * eps - target).pow(4).sum() for eps in noise) / 3
        kl = (0.5 * (lam * (sigma**2 + mu**2) - 1 - (lam * sigma**2).log())).sum()
        adam.zero_grad()
        (loss + kl / n).backward()
        adam.step()
        torch.testing.assert_close(w.detach(), mu.detach(), rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(
            opt.posterior().stddev["0"], nn.functional.softplus(rho).detach(), rtol=1e-8, atol=1e-9
        )


@pytest.mark.parametrize("rescale", [True, False])
def test_ivon_step_by_step(rescale: bool) -> None:
    """An independent scalar reading of the published equations, in Python floats."""
    ess, delta, beta1, beta2, lr, clip, hess_init = 50.0, 0.03, 0.9, 0.95, 0.3, 0.05, 0.4
    w = nn.Parameter(torch.tensor([0.7, -0.2], dtype=torch.float64))
    opt = vadam.IVON(
        [w], lr=lr, betas=(beta1, beta2), num_data=ess, prior_precision=ess * delta, hess_init=hess_init, clip_radius=clip,
        rescale_lr=rescale, samples=2,
    )  # fmt: skip

    def f(theta):
        return (theta - 1.0) ** 4 + 0.5 * theta**2

    def slope(x: float) -> float:
        return 4 * (x - 1.0) ** 3 + x

    m, h, mu = [0.0, 0.0], [hess_init, hess_init], [0.7, -0.2]
    for t in range(1, 31):
        seen: list[list[float]] = []

        def closure():
            opt.zero_grad()
            seen.append(w.tolist())  # noqa: B023
            loss = f(w).sum()
            loss.backward()
            return loss

        opt.step(closure)
        for d in range(2):
            gs = [slope(theta[d]) for theta in seen]
            ns = [theta[d] - mu[d] for theta in seen]
            g_bar = sum(gs) / 2
            price = ess * (h[d] + delta) * sum(g * n for g, n in zip(gs, ns, strict=True)) / 2
            m[d] = beta1 * m[d] + (1 - beta1) * g_bar
            new = beta2 * h[d] + (1 - beta2) * price
            h[d] = new + 0.5 * (1 - beta2) ** 2 * (h[d] - price) ** 2 / (h[d] + delta)
            direction = (m[d] / (1 - beta1**t) + delta * mu[d]) / (h[d] + delta)
            alpha = lr * (hess_init + delta) if rescale else lr
            mu[d] -= alpha * max(-clip, min(clip, direction))
        torch.testing.assert_close(w.detach(), torch.tensor(mu, dtype=torch.float64), rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(opt.state[w]["s"], torch.tensor(h, dtype=torch.float64), rtol=1e-8, atol=1e-10)


def test_backtracking_is_the_largest_feasible_step() -> None:
    torch.manual_seed(0)
    s = torch.rand(200, dtype=torch.float64)
    h = 40 * torch.randn(200, dtype=torch.float64)
    n, lam, beta = 20.0, 2.0, 0.3
    feasible = float(rules.von.feasible_beta(s, h, beta=beta, N=n, lam=lam, delta=0.5))
    margin = lambda b: float(((1 - b) * s + b * h + lam / n).min())  # noqa: E731
    assert feasible < beta
    assert margin(beta) < 0 < margin(feasible)
    assert margin(2.01 * feasible) < 0 < margin(1.99 * feasible)  # δ = ½: exactly half way to the border
    assert float(rules.von.feasible_beta(s, h.abs(), beta=beta, N=n, lam=lam)) == beta


def test_von_keeps_its_precision_positive_on_a_nonconvex_loss() -> None:
    w = nn.Parameter(torch.randn(50, dtype=torch.float64))
    opt = vadam.VON([w], lr=0.01, beta=0.5, num_data=10, prior_precision=1.0, init_precision=5.0)

    def closure():
        opt.zero_grad()
        loss = (5 * w).cos().sum() + 0.05 * w.pow(2).sum()
        loss.backward()
        return loss

    for _ in range(300):
        opt.step(closure)
        assert (opt.posterior().precision["0"] > 0).all()


def test_score_function_minimises_a_piecewise_constant_objective() -> None:
    """Ten dimensions, no gradient anywhere: a staircase around a known minimum. Variational optimisation (τ = 0) from values alone."""
    torch.manual_seed(1)
    target = torch.linspace(-1, 1, 10, dtype=torch.float64)
    w = nn.Parameter(torch.zeros(10, dtype=torch.float64))

    def staircase() -> float:
        return float(((w.detach() - target) * 4).round().abs().sum())

    precisions = {"prior_precision": 1e-6, "init_precision": 8.0}
    opt = vadam.VON(
        [w], lr=0.05, beta=0.99, num_data=1, tau=0.0, curvature="score", samples=32, antithetic=True, **precisions
    )
    start = staircase()
    for _ in range(500):
        opt.step(staircase)
    assert start > 15
    assert staircase() <= 3


@pytest.mark.parametrize(("samples", "antithetic"), [(1, False), (5, False), (4, True), (2, True)])
def test_score_estimates_are_centred_by_the_values_of_other_noise(samples: int, antithetic: bool) -> None:
    """An antithetic pair shares its noise, so that its two values are centred by those of the other pairs, if there are any."""
    torch.manual_seed(0)
    w = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    settings = {"num_data": 1, "prior_precision": 1.0, "init_precision": 4.0, "step_bound": float("inf")}
    opt = vadam.VON([w], lr=1.0, beta=0.0, curvature="score", samples=samples, antithetic=antithetic, **settings)
    seen: list[torch.Tensor] = []

    def objective() -> float:
        seen.append(w.detach().clone())
        return float(100 + (w - 1).square().sum())

    opt.step(objective)
    values = [100 + (theta - 1).square().sum() for theta in seen]
    pair = [k // 2 if antithetic else k for k in range(samples)]
    g = torch.zeros(3, dtype=torch.float64)
    for k, theta in enumerate(seen):
        others = [value for other, value in enumerate(values) if pair[other] != pair[k]]
        g += (values[k] - (sum(others) / len(others) if others else 0)) * theta * 4 / samples  # ε/σ = θ/σ², σ⁻² = 4
    torch.testing.assert_close(-w.detach() * opt.posterior().precision["0"], g)


def test_score_estimates_are_unbiased() -> None:
    """E[F ε/σ] = E[∇F], E[F (ε²−1)/σ²] = E[∇²F]: for F = a·θ + ½ θᵀθ·c the truth is a + cμ and c. 40,000 draws."""
    torch.manual_seed(0)
    from vadam import curvature

    eps = torch.randn(40_000, dtype=torch.float64)
    precision, mu, a, c = torch.tensor(4.0, dtype=torch.float64), 0.3, 1.2, 0.8
    theta = mu + eps / precision.sqrt()
    value = a * theta + 0.5 * c * theta**2
    centred = value - value.mean()
    g, h = curvature.score_gradient(centred, eps, precision), curvature.score_curvature(centred, eps, precision)
    assert abs(float(g.mean()) - (a + c * mu)) < 4 * float(g.std()) / 200
    assert abs(float(h.mean()) - c) < 4 * float(h.std()) / 200
