"""Check identities between the algorithms: the largest difference between two runs that should agree."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from vadam.rules import bbvi, vadagrad, vadam, von
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.theory.config import Config

ALPHA, GAMMA1, GAMMA2 = 0.01, 0.9, 0.99


def check(config: Config) -> dict[str, Any]:
    return {
        "vadam_without_noise_and_prior_minus_adam": vadam_is_adam(config),
        "von_minus_natural_gradient": von_is_ngvi(config),
        "adam_minus_heavy_ball_with_quotient": heavy_ball(config, quotient=True),
        "adam_minus_heavy_ball_with_product": heavy_ball(config, quotient=False),
        "smallest_change_of_vadagrads_s": vadagrad_shrinks(config),
        "smallest_precision_of_vogn": vogn_stays_positive(config),
        "vectors_per_weight": vectors_per_weight(),
    }


def vadam_is_adam(config: Config) -> float:
    """Return the difference between Vadam with σ = 0 and λ = 0 and Adam with δ = 0: Fig. 1's two columns."""
    gradients = _gradients(config)
    weight = torch.nn.Parameter(torch.zeros_like(gradients[0]))
    adam = torch.optim.Adam([weight], lr=ALPHA, betas=(GAMMA1, GAMMA2), eps=0.0)
    state = vadam.init(torch.zeros_like(gradients[0]), init_precision=0.0, N=1.0, lam=0.0)
    worst = 0.0
    for g in gradients:
        weight.grad = g.clone()
        adam.step()
        state = vadam.update(state, g, g * g, alpha=ALPHA, gamma1=GAMMA1, gamma2=GAMMA2, N=1.0, lam=0.0)
        worst = max(worst, (weight.detach() - state.mu).abs().max().item())
    return worst


def von_is_ngvi(config: Config) -> float:
    """Return the difference between VON's step and eq. (5) and (6) at the same noise (App. D).

    The gradients of the sampled ELBO are computed by autograd.
    """
    N, lam, beta = 20, 2.0, 0.1
    random = generator(config.seed, "ngvi")
    X = torch.randn(N, config.dimension, generator=random, dtype=torch.float64)
    y = (torch.rand(N, generator=random, dtype=torch.float64) < 0.5).double()
    state = von.init(torch.zeros(config.dimension, dtype=torch.float64), init_precision=lam, N=N, lam=lam)
    worst = 0.0
    for _ in range(config.steps // 10):
        theta = (
            state.mu
            + torch.randn(state.mu.shape, generator=random, dtype=torch.float64)
            * von.precision(state, N=N, lam=lam).rsqrt()
        )
        g, h = _gradient_and_hessian_diagonal(X, y, theta)
        mu, precision = state.mu, von.precision(state, N=N, lam=lam)
        gradient_mu = -N * g - lam * mu
        gradient_variance = 0.5 * (-N * h - lam + precision)
        new_precision = precision - 2 * beta * gradient_variance
        new_mu = mu + beta * gradient_mu / new_precision
        state = von.update(state, g, h, alpha=beta, beta=beta, N=N, lam=lam)
        worst = max(worst, (state.mu - new_mu).abs().max().item())
        worst = max(worst, (von.precision(state, N=N, lam=lam) / new_precision - 1).abs().max().item())
    return worst


def heavy_ball(config: Config, *, quotient: bool) -> float:
    """Return the difference between Adam and eq. (12).

    γ̃_t is γ₁(1 − γ₁ᵗ⁻¹)/(1 − γ₁ᵗ) as in App. E (``quotient``), or multiplied by (1 − γ₁ᵗ) as printed in §4.
    """
    gradients = _gradients(config)
    theta = previous = torch.zeros_like(gradients[0])
    m = s = torch.zeros_like(theta)
    adam, root = theta, torch.zeros_like(theta)
    worst = 0.0
    for t, g in enumerate(gradients, start=1):
        m, s = GAMMA1 * m + (1 - GAMMA1) * g, GAMMA2 * s + (1 - GAMMA2) * g**2
        new_root = (s / (1 - GAMMA2**t)).sqrt()
        adam = adam - ALPHA * m / (1 - GAMMA1**t) / new_root
        correction = 1 / (1 - GAMMA1**t) if quotient else 1 - GAMMA1**t
        momentum = GAMMA1 * (1 - GAMMA1 ** (t - 1)) * correction * root / new_root * (theta - previous)
        step = ALPHA * (1 - GAMMA1) / (1 - GAMMA1**t) * g / new_root
        theta, previous, root = theta - step + momentum, theta, new_root
        worst = max(worst, (adam - theta).abs().max().item())
    return worst


def vadagrad_shrinks(config: Config) -> float:
    """Return the smallest change of s over a run: s never decreases, so the variance never grows (§5)."""
    gradients = _gradients(config)
    state = vadagrad.init(torch.zeros_like(gradients[0]), init_precision=1.0, N=1.0)
    smallest = float("inf")
    for g in gradients:
        new = vadagrad.update(state, g, g * g, alpha=ALPHA, beta=0.1, N=1.0)
        smallest = min(smallest, (new.s - state.s).min().item())
        state = new
    return smallest


def vogn_stays_positive(config: Config) -> float:
    """Return the smallest precision over a run with rates up to 1.

    With ĥ ≥ 0 no step needs back-tracking (§3.2).
    """
    gradients = _gradients(config)
    state = von.init(torch.zeros_like(gradients[0]), init_precision=1.0, N=1.0, lam=1.0)
    smallest = float("inf")
    for t, g in enumerate(gradients):
        state = von.update(state, g, g * g, alpha=ALPHA, beta=1.0 / (1 + t % 10), N=1.0, lam=1.0)
        smallest = min(smallest, von.precision(state, N=1.0, lam=1.0).min().item())
    return smallest


def vectors_per_weight() -> dict[str, int]:
    """Return how many numbers each algorithm stores per weight between steps, including the mean."""
    mu = torch.zeros(3)
    states = {
        "Vadam": vadam.init(mu, init_precision=1.0, N=1.0, lam=1.0),
        "BBVI with Adam": bbvi.init(mu, init_precision=1.0, N=1.0, lam=1.0),
        "VOGN": von.init(mu, init_precision=1.0, N=1.0, lam=1.0),
    }
    counts = {name: sum(isinstance(part, Tensor) for part in state) for name, state in states.items()}
    weight = torch.nn.Parameter(mu.clone())
    weight.grad = torch.ones_like(weight)
    adam = torch.optim.Adam([weight])
    adam.step()
    kept = sum(isinstance(part, Tensor) and part.shape == mu.shape for part in adam.state[weight].values())
    return counts | {"Adam (no posterior)": 1 + kept}


def _gradients(config: Config) -> list[Tensor]:
    random = generator(config.seed, "gradients")
    return list(torch.randn(config.steps, config.dimension, generator=random, dtype=torch.float64) + 0.1)


def _gradient_and_hessian_diagonal(X: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    def f(w: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(X @ w, y)

    return torch.func.grad(f)(theta), torch.func.jacrev(torch.func.grad(f))(theta).diagonal()
