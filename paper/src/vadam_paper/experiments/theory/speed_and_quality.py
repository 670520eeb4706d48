"""Check §3.4: VOGN with M = 1 is slow, Vprop with M > 1 is fast and slightly worse.

Bayesian logistic regression, whose mean-field optimum is known. Both methods run at several constant rates α = β; each is shown at the
rate that ends with the best ELBO.
"""

from typing import Any

import torch
from torch import Tensor

from vadam.exact import logistic
from vadam.rules import von, vprop
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.theory.config import Config

NUM_DATA, DIMENSION, LAM = 200, 5, 1.0
RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
METHODS = {"vogn-M1": ("vogn", 1), "vprop-M1": ("vprop", 1), "vprop-M32": ("vprop", 32)}
LOOKS = 400
"""Looks at a run, evenly in the logarithm of the step: times to settle are known to 2.5 %."""
END = 0.75
"""Share of the steps after which a run counts as at its end; by then the slowest rate has settled, too."""
SETTLED = 0.05
"""Share of the first distance from the best ELBO within which a run has settled at its own end."""


def check(config: Config) -> dict[str, Any]:
    """Return for every method the steps until it settles and its ELBO's distance from the optimum, run by run."""
    X, y = problem(config)
    best = logistic.mean_field(X, y, LAM)
    optimum = float(logistic.elbo(X, y, best.mean, best.stddev**2, LAM))
    found: dict[str, Any] = {"optimum": optimum, "num_data": NUM_DATA}
    for name, (method, M) in METHODS.items():
        steps, gaps = distances(config, X, y, method, M, optimum)
        end = at_the_end(steps, gaps)  # [rates, runs]
        chosen = int(end.mean(1).argmin())
        found[name] = {
            "rate": RATES[chosen],
            "end": end[chosen],
            "steps": [settles(steps, gap) for gap in gaps[:, chosen].T],
            "epochs_a_step": M / NUM_DATA,
        }
    return found


def problem(config: Config) -> tuple[Tensor, Tensor]:
    random = generator(config.seed, "speed")
    X = torch.randn(NUM_DATA, DIMENSION, generator=random, dtype=torch.float64)
    w = torch.randn(DIMENSION, generator=random, dtype=torch.float64)
    y = (torch.rand(NUM_DATA, generator=random, dtype=torch.float64) < torch.sigmoid(2 * X @ w)).double()
    return X, y


def distances(config: Config, X: Tensor, y: Tensor, method: str, M: int, optimum: float) -> tuple[list[int], Tensor]:
    """Return the steps of the looks, and there the ELBO's distance from the optimum in nats, [looks, rates, runs]."""
    random = generator(config.seed, "speed", method, M)
    runs, N = config.runs, float(NUM_DATA)
    rate = torch.tensor(RATES, dtype=torch.float64)[:, None, None]
    rule: Any = von if method == "vogn" else vprop
    state = rule.init(torch.zeros(len(RATES), runs, DIMENSION, dtype=torch.float64), init_precision=N, N=N, lam=LAM)
    looks, gaps = looks_at(config.minibatches), []
    for step in range(1, config.minibatches + 1):
        noise = torch.randn(state.mu.shape, generator=random, dtype=torch.float64)
        theta = state.mu + noise * rule.precision(state, N=N, lam=LAM).rsqrt()
        rows = torch.randint(NUM_DATA, (len(RATES), runs, M), generator=random)
        x, t = X[rows], y[rows]
        each = (torch.sigmoid((x * theta[..., None, :]).sum(-1)) - t)[..., None] * x
        g = each.mean(-2)
        h = (each**2).mean(-2) if method == "vogn" else g**2
        state = rule.update(state, g, h, alpha=rate, beta=rate, N=N, lam=LAM)
        if step in looks:
            gaps.append(optimum - _elbo(X, y, state.mu, 1 / rule.precision(state, N=N, lam=LAM)))
    return looks, torch.stack(gaps)


def looks_at(steps: int) -> list[int]:
    """Return the steps after which the runs are looked at."""
    return sorted({round(steps ** (k / LOOKS)) for k in range(LOOKS + 1)})


def _elbo(X: Tensor, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    flat = [logistic.elbo(X, y, m, v, LAM) for m, v in zip(mean.flatten(0, 1), variance.flatten(0, 1), strict=True)]
    return torch.stack(flat).view(mean.shape[:2])


def at_the_end(steps: list[int], gaps: Tensor) -> Tensor:
    """Return the mean over the looks in the last quarter of the steps."""
    return gaps[torch.tensor(steps) > END * steps[-1]].mean(0)


def settles(steps: list[int], gap: Tensor) -> int:
    """Return the first look after which a run stays near its own end."""
    near = gap <= at_the_end(steps, gap) + SETTLED * gap[0]
    away = (~near).nonzero()
    return steps[min(int(away[-1]) + 1, len(steps) - 1)] if len(away) else steps[0]
