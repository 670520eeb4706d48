"""Check §3.2: does the error of the Gauss-Newton approximation fall as the fit improves?

A small network for two classes is trained by maximum likelihood; along the way the mean of squared gradients of single examples is compared
with the diagonal of the Hessian. Then q is fitted by VOGN, and the error is averaged over q.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from vadam.rules import von
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.theory.config import Config

SIZES = (1000, 100)
"""Numbers of examples: many for the network's weights, and so few that it fits their noise."""
INPUTS, HIDDEN = 4, 6
WEIGHTS = (INPUTS + 2) * HIDDEN + 1
ALPHA, LAM, DRAWS = 0.02, 1.0, 50


def check(config: Config) -> dict[str, Any]:
    """Return losses and relative errors at the start, after a tenth of the steps and at the end, and the errors under q."""
    looks = (0, config.steps // 5, 2 * config.steps)
    found: dict[str, Any] = {"steps": looks, "weights": WEIGHTS}
    for N in SIZES:
        runs = [train(config, run, N, looks) for run in range(config.runs)]
        found[str(N)] = {
            "loss": [[loss for loss, _ in points] for points, _ in runs],
            "relative_error": [[error for _, error in points] for points, _ in runs],
            "under_q": [under_q for _, under_q in runs],
        }
    return found


def train(config: Config, run: int, N: int, looks: tuple[int, ...]) -> tuple[list[tuple[float, float]], float]:
    """Train by Adam on the mean loss; look at it at the given steps; then find the error under VOGN's posterior."""
    random = generator(config.seed, "ggn", N, run)
    X = torch.randn(N, INPUTS, generator=random, dtype=torch.float64)
    y = (torch.rand(N, generator=random, dtype=torch.float64) < torch.sigmoid(3 * X[:, 0] * X[:, 1])).double()
    theta = 0.5 * torch.randn(WEIGHTS, generator=random, dtype=torch.float64)
    weight = torch.nn.Parameter(theta.clone())
    adam = torch.optim.Adam([weight], lr=ALPHA)
    points = []
    for step in range(looks[-1] + 1):
        if step in looks:
            points.append((float(loss(weight.detach(), X, y)), relative_error(weight.detach(), X, y)))
        adam.zero_grad()
        loss(weight, X, y).backward()
        adam.step()
    return points, error_under_q(weight.detach(), X, y, random, config.steps)


def error_under_q(theta: Tensor, X: Tensor, y: Tensor, random: torch.Generator, steps: int) -> float:
    """Return E_q of the relative error, with q from full-batch VOGN, started at the maximum-likelihood fit."""
    N = float(len(X))
    state = von.init(theta, init_precision=N, N=N, lam=LAM)

    def draw() -> Tensor:
        noise = torch.randn(state.mu.shape, generator=random, dtype=torch.float64)
        return state.mu + noise * von.precision(state, N=N, lam=LAM).rsqrt()

    for _ in range(steps):
        g, h = gradient_and_ggn(draw(), X, y)
        state = von.update(state, g, h, alpha=ALPHA, beta=ALPHA, N=N, lam=LAM)
    return sum(relative_error(draw(), X, y) for _ in range(DRAWS)) / DRAWS


def loss(theta: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of a network with one layer of tanh units."""
    W, b, v = theta[: INPUTS * HIDDEN].view(INPUTS, HIDDEN), theta[INPUTS * HIDDEN : -HIDDEN - 1], theta[-HIDDEN - 1 :]
    return binary_cross_entropy_with_logits(torch.tanh(X @ W + b) @ v[:-1] + v[-1], y)


def gradient_and_ggn(theta: Tensor, X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of the examples' gradients and the mean of their squares."""
    each = torch.func.vmap(lambda x, t: torch.func.grad(loss)(theta, x[None], t[None]))(X, y)
    return each.mean(0), (each**2).mean(0)


def relative_error(theta: Tensor, X: Tensor, y: Tensor) -> float:
    """Return the distance of the approximation from the Hessian's diagonal, relative to the diagonal's length."""
    hessian = torch.func.jacrev(torch.func.grad(loss))(theta, X, y).diagonal()
    _, ggn = gradient_and_ggn(theta, X, y)
    return float((ggn - hessian).norm() / hessian.norm())
