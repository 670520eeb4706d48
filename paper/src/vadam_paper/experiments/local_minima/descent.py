"""Three ways to descend: Vadam annealed to VadaGrad, the same without noise, and gradient descent."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vadam.rules import vadam
from vadam_paper.experiments.local_minima.config import Config
from vadam_paper.experiments.local_minima.landscape import gradient

NUM_DATA = 1.0
"""N for variational optimisation in the paper: F itself is the negative log-likelihood."""


@dataclass
class Path:
    """Means (or iterates) every few steps, with the standard deviations of q."""

    every: int
    points: list[Tensor] = field(default_factory=list)
    stddevs: list[Tensor] = field(default_factory=list)

    def keep(self, step: int, mean: Tensor, stddev: Tensor) -> None:
        if step % self.every == 0:
            self.points.append(mean)
            self.stddevs.append(stddev)


def vadam_to_vadagrad(
    config: Config,
    start: Tensor,
    random: torch.Generator | None,
    path: Path | None = None,
    report: Callable[[float], None] = lambda fraction: None,
    shift: Tensor | float = 0.0,
) -> Tensor:
    """Run Fig. 1 with τ annealed from 1 to 0 (§5) and return the last mean.

    Without ``random`` the weights are not perturbed. ``shift`` moves the landscape away from the prior mean, which is the
    origin; the returned mean is shifted back.
    """
    lam = config.prior_precision
    state = vadam.init(start + shift, init_precision=lam, N=NUM_DATA, lam=lam)
    for step in range(config.steps):
        tau = max(0.0, 1 - step / (config.annealed_until * config.steps))
        stddev = vadam.precision(state, N=NUM_DATA, lam=lam, tau=tau).rsqrt()
        if path is not None:
            path.keep(step, state.mu - shift, stddev)
        noise = torch.zeros_like(stddev) if random is None else stddev * _normal(stddev, random)
        g = gradient(state.mu + noise - shift)
        state = vadam.update(
            state,
            g,
            g * g,
            alpha=config.alpha,
            gamma1=config.gamma1,
            gamma2=config.gamma2,
            N=NUM_DATA,
            lam=lam,
            tau=tau,
        )
        if step % 500 == 0:
            report(step / config.steps)
    return state.mu - shift


def gradient_descent(config: Config, start: Tensor, path: Path | None = None) -> Tensor:
    theta = start
    for step in range(config.steps):
        if path is not None:
            path.keep(step, theta, torch.zeros_like(theta))
        theta = theta - config.gradient_descent_rate * gradient(theta)
    return theta


def _normal(like: Tensor, random: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=random, dtype=like.dtype)
