"""Momentum in natural parameters against references in numpy, written from App. D and E of the paper. Float64, 50 steps, 1e-12."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vadam
from vadam import rules

STEPS, D = 50, 6
N, LAM = 30.0, 0.6
EXACT = {"rtol": 1e-12, "atol": 1e-12}
Array = np.ndarray


def gradient(mu: Array, t: int) -> Array:
    """Return a smooth gradient that changes with time."""
    return mu - np.sin(np.arange(D) + 0.3 * t) + 0.1 * mu**3


def hessian(mu: Array, t: int) -> Array:
    """Return a symmetric positive definite matrix that changes with time."""
    a = np.sin(np.outer(np.arange(D) + 1, np.arange(D) + 2) + 0.2 * t)
    return np.diag(1 + 0.3 * mu**2) + 0.2 * (a @ a.T)


def start() -> Array:
    return np.linspace(-1, 1, D)


def run(rule, state, h, **rates) -> list:
    """Return the states of a rule's steps."""
    states = []
    for t in range(STEPS):
        mu = state.mu.numpy()
        state = rule.update(state, torch.tensor(gradient(mu, t)), torch.tensor(h(mu, t)), N=N, lam=LAM, **rates)
        states.append(state)
    return states


def diagonal(mu: Array, t: int) -> Array:
    return np.diag(hessian(mu, t))


def natural_heavy_ball(beta: float, gamma: float, init: float) -> list[tuple[Array, Array]]:
    """Return (μ, Σ⁻¹) of App. E.2's η₊ = η + ᾱ ∇_m 𝓛 + γ̄ (η − η₋) for a diagonal Gaussian, in natural parameters throughout."""
    mu, P = start(), np.full(D, init)
    eta = np.stack([P * mu, -P / 2])
    before, found = eta, []
    for t in range(STEPS):
        P = -2 * eta[1]
        mu = eta[0] / P
        grad_mu = -(N * gradient(mu, t) + LAM * mu)
        grad_sigma = -0.5 * N * diagonal(mu, t) - 0.5 * LAM + 0.5 * P
        natural = np.stack([grad_mu - 2 * grad_sigma * mu, grad_sigma])
        eta, before = eta + beta * natural + gamma * (eta - before), eta
        found.append((eta[0] / (-2 * eta[1]), -2 * eta[1]))
    return found


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.8])
def test_exact_momentum_is_a_heavy_ball_in_the_natural_parameters(gamma: float) -> None:
    state = rules.exact_momentum.init(torch.tensor(start()), init_precision=20.0, N=N, lam=LAM)
    ours = run(rules.exact_momentum, state, diagonal, alpha=0.05, beta=0.05, gamma=gamma)
    for state, (mu, P) in zip(ours, natural_heavy_ball(0.05, gamma, 20.0), strict=True):
        torch.testing.assert_close(state.mu, torch.tensor(mu), **EXACT)
        torch.testing.assert_close(rules.exact_momentum.precision(state, N=N, lam=LAM), torch.tensor(P), **EXACT)


def test_exact_momentum_with_two_rates_and_tau() -> None:
    """E.3's update of μ and Σ⁻¹ as printed, with rates of their own for mean and precision, and §5's τ."""
    alpha, beta, gamma, tau, damping = 0.03, 0.08, 0.6, 0.7, 0.01
    state = rules.exact_momentum.init(torch.tensor(start()), init_precision=20.0, N=N, lam=LAM)
    ours = run(rules.exact_momentum, state, diagonal, alpha=alpha, beta=beta, gamma=gamma, tau=tau, damping=damping)
    mu = mu_before = start()
    s = s_before = np.full(D, (20.0 - LAM) / N)
    k = tau * LAM / N
    for t, state in enumerate(ours):
        s_next = (1 - tau * beta) * s + beta * diagonal(mu, t) + gamma * (s - s_before)
        step = -alpha * (gradient(mu, t) + k * mu) + gamma * (s_before + k + damping) * (mu - mu_before)
        mu, mu_before = mu + step / (s_next + k + damping), mu
        s, s_before = s_next, s
        torch.testing.assert_close(state.mu, torch.tensor(mu), **EXACT)
        torch.testing.assert_close(state.s, torch.tensor(s), **EXACT)


def test_exact_momentum_keeps_the_precision_positive() -> None:
    """Without the bound this heavy ball would carry the precision below zero, though ĥ is never negative."""
    state = rules.exact_momentum.init(torch.zeros(D, dtype=torch.float64), init_precision=1000.0, N=N, lam=LAM)
    s = v = (1000.0 - LAM) / N
    v, smallest = 0.0, s
    for _ in range(STEPS):
        v = 0.9 * v - 0.3 * s
        s = s + v
        smallest = min(smallest, s + LAM / N)
        zero = torch.zeros(D, dtype=torch.float64)
        state = rules.exact_momentum.update(state, zero, zero, alpha=0.1, beta=0.3, gamma=0.9, N=N, lam=LAM)
        assert bool((rules.exact_momentum.precision(state, N=N, lam=LAM) > 0).all())
    assert smallest < 0


@pytest.mark.parametrize("tau", [1.0, 0.5, 0.0])
def test_vprop_with_momentum_is_the_papers(tau: float) -> None:
    """E.4, last but one display: √s in the step and in the momentum."""
    alpha, beta, gamma = 0.03, 0.08, 0.8
    state = rules.vprop_momentum.init(torch.tensor(start()), init_precision=20.0, N=N, lam=LAM)
    ours = run(
        rules.vprop_momentum,
        state,
        lambda mu, t: gradient(mu, t) ** 2,
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        tau=tau,
        kappa=1.0,
    )
    mu = before = start()
    s, k = np.full(D, (20.0 - LAM) / N), tau * LAM / N
    for t, state in enumerate(ours):
        g = gradient(mu, t)
        s_next = (1 - tau * beta) * s + beta * g**2
        top, bottom = np.sqrt(s) + k, np.sqrt(s_next) + k
        mu, before = mu - alpha * (g + k * mu) / bottom + gamma * top / bottom * (mu - before), mu
        s = s_next
        torch.testing.assert_close(state.mu, torch.tensor(mu), **EXACT)
        precision = rules.vprop_momentum.precision(state, N=N, lam=LAM, tau=tau)
        torch.testing.assert_close(precision, torch.tensor(N * s + tau * LAM), **EXACT)


@pytest.mark.parametrize(("gamma", "tau"), [(0.0, 1.0), (0.8, 1.0), (0.6, 0.5), (0.0, 0.0), (0.5, 0.0)])
def test_full_von_with_momentum_and_tau(gamma: float, tau: float) -> None:
    """E.4's first display with matrices; at τ = 0 full-matrix VAN, S₊ = S + βH."""
    alpha, beta = 0.05, 0.1
    state = rules.full_von.init(torch.tensor(start()), init_precision=20.0, N=N, lam=LAM)
    ours = run(rules.full_von, state, hessian, alpha=alpha, beta=beta, gamma=gamma, tau=tau)
    mu = before = start()
    S, k = np.eye(D) * (20.0 - LAM) / N, tau * LAM / N * np.eye(D)
    for t, state in enumerate(ours):
        S_next = (1 - tau * beta) * S + beta * hessian(mu, t)
        inverse = np.linalg.inv(S_next + k)
        step = -alpha * inverse @ (gradient(mu, t) + k @ mu) + gamma * inverse @ (S + k) @ (mu - before)
        mu, before, S = mu + step, mu, S_next
        torch.testing.assert_close(state.mu, torch.tensor(mu), **EXACT)
        torch.testing.assert_close(
            rules.full_von.precision(state, N=N, lam=LAM, tau=tau), torch.tensor(N * (S + k)), **EXACT
        )


def test_full_von_as_van_finds_a_minimum() -> None:
    """With τ = 0 the front-end minimises: no prior pulls, the precision grows without bound, and θ ends in the minimum."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(D, D, generator=generator, dtype=torch.float64)
    A = A @ A.T / D + torch.eye(D, dtype=torch.float64)
    target = torch.randn(D, generator=generator, dtype=torch.float64)
    w = nn.Parameter(torch.zeros(D, dtype=torch.float64))
    opt = vadam.FullVON(
        [w],
        lr=0.5,
        beta=0.5,
        momentum=0.3,
        tau=0.0,
        num_data=1,
        prior_precision=1.0,
        init_precision=5.0,
        generator=generator,
    )

    def closure() -> Tensor:
        opt.zero_grad()
        return 0.5 * (w - target) @ A @ (w - target)

    for _ in range(2000):
        opt.step(closure)
    precision = opt.posterior().precision
    torch.testing.assert_close(precision, 4.0 * torch.eye(D, dtype=torch.float64) + 1000.0 * A, rtol=1e-10, atol=1e-10)
    # A few standard deviations of 1/√1000 · steps of rate 1/t.
    torch.testing.assert_close(w.detach(), target, rtol=0, atol=0.2)


def test_figure_1_to_the_letter() -> None:
    """With ``start_in_step`` ŝ is all of s over 1 − γ₂ᵗ, the start included, as Fig. 1 reads."""
    alpha, gamma1, gamma2, init = 0.05, 0.9, 0.99, 20.0
    p = nn.Parameter(torch.tensor(start()))
    opt = vadam.Vadam(
        [{"params": [p], "deterministic": True}],
        lr=alpha,
        betas=(gamma1, gamma2),
        num_data=N,
        prior_precision=LAM,
        init_precision=init,
        start_in_step=True,
    )
    mu, m, s = start(), np.zeros(D), np.full(D, (init - LAM) / N)
    for t in range(1, STEPS + 1):
        g = gradient(mu, t)
        m = gamma1 * m + (1 - gamma1) * (g + LAM / N * mu)
        s = gamma2 * s + (1 - gamma2) * g**2
        mu = mu - alpha * (m / (1 - gamma1**t)) / (np.sqrt(s / (1 - gamma2**t)) + LAM / N)
        p.grad = torch.tensor(gradient(p.detach().numpy(), t))
        opt.step()
        torch.testing.assert_close(p.detach(), torch.tensor(mu), **EXACT)
        state = opt.state[p]
        torch.testing.assert_close(state["s"] + state["s0"], torch.tensor(s), **EXACT)


@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_exact_momentum_halves_the_precision_at_most(tau: float) -> None:
    """A curvature far below zero would make the precision negative: the bound counts the prior's part of the precision too."""
    rule = rules.exact_momentum
    state = rule.init(torch.zeros(3, dtype=torch.float64), init_precision=LAM + N * 0.01, N=N, lam=LAM)
    before = rule.precision(state, N=N, lam=LAM, tau=tau)
    g, h = torch.zeros(3, dtype=torch.float64), torch.tensor([-1e6, -1e3, 0.01 * tau], dtype=torch.float64)
    state = rule.update(state, g, h, alpha=0.1, beta=0.1, gamma=0.9, N=N, lam=LAM, tau=tau)
    after = rule.precision(state, N=N, lam=LAM, tau=tau)
    torch.testing.assert_close(after, before * torch.tensor([0.5, 0.5, 1.0], dtype=torch.float64), **EXACT)
