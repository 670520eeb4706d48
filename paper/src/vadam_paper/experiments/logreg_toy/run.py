"""Run one cell for each method; its 20 runs are one stack."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadam.exact.grid import grid_posterior
from vadam.rules import natural_momentum, vadam
from vadam_paper import data
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.logreg import matlab_toy_vogn, matlab_vadam, quality
from vadam_paper.experiments.logreg.engine import Method, train
from vadam_paper.experiments.logreg.problem import Problem, without_bias
from vadam_paper.experiments.logreg.rates import decayed
from vadam_paper.experiments.logreg_toy.config import Config

GRID = ((0.0, 40.0), (-2.0, 22.0))
GRID_POINTS = 121
GAMMA1 = 0.9


def cells(config: Config) -> dict[str, float]:
    return {"mf-exact": 0.05, "vadam": 1.2, "vogn-1": 1.0, "vogn-10": 1.2, "von-10": 1.2}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    problem = load(config, context)
    mean, precision = quality.mean_field_optimum(problem)
    if key == "mf-exact":
        nelbo = quality.nelbo_per_datum(problem, mean, precision)[0] * problem.num_data
        return {
            "mean": mean[0],
            "stddev": precision[0].rsqrt(),
            "nelbo": nelbo,
            "true_posterior": true_posterior(problem),
        }
    start = torch.full_like(mean, config.start)
    *_, last = train(problem, method(config, key), start, context, seed=config.seed, key=key, compiled=config.compiled)
    kl = quality.symmetric_kl(last.mean, last.precision, mean, precision)
    return {"mean": last.mean, "stddev": last.precision.rsqrt(), "kl": kl}


def load(config: Config, context: CellContext) -> Problem:
    table = data.load("murphy", root=context.data)
    rows = np.tile(np.arange(len(table.X)), (config.runs, 1))
    return without_bias(table.X, table.y.astype(float), rows, rows, config.prior_precision)


def method(config: Config, key: str) -> Method:
    M = {"vadam": config.batch_size, "vogn-1": 1, "vogn-10": config.batch_size, "von-10": config.batch_size}[key]
    curvature = {"vadam": "magnitude", "vogn-1": "ggn", "vogn-10": "ggn", "von-10": "hessian"}[key]
    if config.protocol == "authors":
        rule = matlab_vadam if key == "vadam" else matlab_toy_vogn
        return Method(rule, curvature, lambda t: authors_rates(config, t), M, config.iterations, init_precision=1.0)
    if key == "vadam":
        return Method(vadam, curvature, lambda t: fig1_rates(config, t), M, config.iterations)
    return Method(natural_momentum, curvature, lambda t: momentum_rates(config, t), M, config.iterations)


def authors_rates(config: Config, t: Tensor) -> dict[str, Tensor]:
    return {"alpha": decayed(config.alpha0, t), "beta": decayed(config.one_minus_beta0, t)}


def fig1_rates(config: Config, t: Tensor) -> dict[str, Tensor]:
    """Return the rates of App. I.1: γ₂ = β_t, and γ₁ is set to β_t as well."""
    beta = 1 - decayed(config.one_minus_beta0, t)
    return {"alpha": decayed(config.alpha0, t), "gamma1": beta, "gamma2": beta}


def momentum_rates(config: Config, t: Tensor) -> dict[str, Tensor]:
    """Return Adam's rates in the heavy-ball form of §4.

    α̃_t = α_t (1 − γ₁)/(1 − γ₁ᵗ) and γ̃_t = γ₁ (1 − γ₁ᵗ⁻¹)/(1 − γ₁ᵗ).
    """
    return {
        "alpha": decayed(config.alpha0, t) * (1 - GAMMA1) / (1 - GAMMA1**t),
        "beta": decayed(config.one_minus_beta0, t),
        "gamma": GAMMA1 * (1 - GAMMA1 ** (t - 1)) / (1 - GAMMA1**t),
    }


def true_posterior(problem: Problem) -> dict[str, Any]:
    """Return the true posterior on a grid, relative to its maximum, with the levels that enclose 90, 50 and 10 %."""
    signed = (2 * problem.labels - 1)[:, None] * problem.pool

    def log_joint(theta: Tensor) -> Tensor:
        log_prior = -0.5 * (problem.prior_precision * theta**2).sum(1)
        return torch.nn.functional.logsigmoid(theta @ signed.T).sum(1) + log_prior

    grid = grid_posterior(log_joint, *GRID, points=GRID_POINTS)
    top = grid.density.max()
    return {
        "ranges": GRID,
        "relative_density": (grid.density / top * 1e3).round() / 1e3,
        "levels": [level / top.item() for level in grid.levels((0.9, 0.5, 0.1))],
        "mean": grid.mean,
        "stddev": grid.covariance.diagonal().sqrt(),
        "mode": grid.mode,
    }
