"""Logistic regression: the Gaussian of every method beside the exact one with a full covariance.

All rates and seeds of a method are one stack: the library's rules are pure functions, and vmap maps them over the members. A
member with the same seed sees the same minibatches and noise, whatever its rate. The rate falls to zero along a half cosine.
"""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vadam.exact import logistic
from vadam.gaussian import FullGaussian
from vadam.rules import evon, ivon, vadam, vadam_ggn, von
from vadam.rules.arguments import theorem1_weight
from vadam_paper import data
from vadam_paper.data import split_rules
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.correlated.config import Config
from vadam_paper.experiments.correlated.run import SETS
from vadam_paper.experiments.randomness import generator

PUBLISHED = {"toy": "murphy", "breast-cancer": "breast-cancer", "usps": "usps-3vs5"}
PRIOR = {"toy": 0.01, "breast-cancer": 1.0, "usps": 25.0}
"""Prior precision of all weights, the bias included: EVON's prior is isotropic."""
BATCH = {"toy": 10, "breast-cancer": 32, "usps": 64}
BETA1, BETA2 = 0.9, 0.999
HESS_INIT = 0.1


class Problem(NamedTuple):
    """Training rows with a column of ones in front, except for the toy, which has no bias."""

    X: Tensor
    y: Tensor
    prior_precision: float
    batch_size: int


class Method(NamedTuple):
    """A rule, its curvature, the precision at the start, and arguments of ``update`` and ``precision`` that stay fixed."""

    rule: ModuleType
    curvature: str
    init_precision: float
    update: dict[str, Any]
    precision: dict[str, Any] = {}  # noqa: RUF012


@cache
def load(name: str, root: Path | None) -> Problem:
    table = data.load(PUBLISHED[name], root=root)
    X, y = table.X, table.y.astype(float)
    if name != "toy":
        rows = split_rules.halves(len(X))[0].train
        X, y = np.column_stack([np.ones(len(rows)), X[rows]]), y[rows]
    return Problem(torch.as_tensor(X), torch.as_tensor(y), PRIOR[name], BATCH[name])


@cache
def exact_posterior(name: str, root: Path | None) -> FullGaussian:
    problem = load(name, root)
    found = logistic.full_gaussian(problem.X, problem.y, problem.prior_precision).posterior()
    assert isinstance(found, FullGaussian)
    return found


def exact(name: str, context: CellContext) -> dict[str, Any]:
    """Return the ELBO of both exact Gaussians, and how near a diagonal one can come to the full one.

    Among diagonal Gaussians the one with the mean and the diagonal of the precision P minimises KL(q‖full). It is
    ½ (Σ log Pᵢᵢ − log det P) away.
    """
    problem, full = load(name, context.data), exact_posterior(name, context.data)
    diagonal = logistic.mean_field(problem.X, problem.y, problem.prior_precision)
    P = full.precision
    result = {
        "num_data": len(problem.y),
        "weights": len(full.mean),
        "elbo": elbo(problem, full.mean, P),
        "mean_field_elbo": diagonal.elbo,
        "mean_field_kl": float(FullGaussian.of(diagonal.posterior()).kl_to(full)),  # type: ignore[arg-type]
        "nearest_diagonal_kl": float(0.5 * (P.diagonal().log().sum() - torch.logdet(P))),
    }
    return result | _shape(full.mean, P) | {"diagonal": _shape(diagonal.mean, torch.diag(diagonal.precision))}


def fit(config: Config, name: str, method: str, context: CellContext) -> dict[str, Any]:
    """Return ELBO and KL to the exact full Gaussian for every rate and seed, [rates][seeds]."""
    problem = load(name, context.data)
    how = methods(problem)[method]
    mean, precision = train(config, problem, how, getattr(config, SETS[name]), name, context)
    full = exact_posterior(name, context.data)
    shapes = {"weight": torch.Size(problem.X[:1].shape)}
    scores: dict[str, list[float | None]] = {"elbo": [], "kl": [], "symmetric_kl": []}
    for mu, P in zip(mean, precision, strict=True):
        if not (mu.isfinite().all() and P.isfinite().all()):
            for values in scores.values():
                values.append(None)
            continue
        q = FullGaussian(mu, P, shapes)
        found = {"elbo": elbo(problem, mu, P), "kl": float(q.kl_to(full)), "symmetric_kl": float(q.symmetric_kl(full))}
        for score, value in found.items():
            scores[score].append(value)
    by_rate = {score: list(_chunks(values, config.seeds)) for score, values in scores.items()}
    best = max(range(len(config.rates)), key=lambda r: _mean(by_rate["elbo"][r]))
    first = best * config.seeds
    return by_rate | {"best_rate": best} | _shape(mean[first], precision[first])


def elbo(problem: Problem, mean: Tensor, precision: Tensor) -> float:
    covariance = torch.linalg.inv(precision)
    return float(logistic.elbo(problem.X, problem.y, mean, covariance, problem.prior_precision))


def methods(problem: Problem) -> dict[str, Method]:
    """Return all methods; Vadam and VOGN start at the prior, as in the paper."""
    lam, N = problem.prior_precision, float(len(problem.y))
    w = theorem1_weight(problem.batch_size, N)
    adam = {"gamma1": BETA1, "gamma2": BETA2}
    successor = {"beta1": BETA1, "beta2": BETA2}
    return {
        "vadam": Method(vadam, "magnitude", lam, adam),
        "vadam-batch-size": Method(vadam, "magnitude", lam, adam, {"w": w}),
        "vadam-ggn": Method(vadam_ggn, "ggn", lam, {**adam, "w": w}, {"w": w}),
        "vogn": Method(von, "ggn", lam, {"beta": 1 - BETA2}),
        "ivon": Method(ivon, "reparameterised", N * HESS_INIT + lam, successor),
        "evon": Method(evon, "reparameterised", N * HESS_INIT + lam, {**successor, "beta": 0.999, "every": 10}),
    }


def train(
    config: Config, problem: Problem, method: Method, steps: int, name: str, context: CellContext
) -> tuple[Tensor, Tensor]:
    """Return means [E, D] and precisions [E, D, D] of all members, rates outside, seeds inside."""
    N, lam, D = float(len(problem.y)), problem.prior_precision, problem.X.shape[1]
    rates = torch.tensor(config.rates, dtype=torch.float64).repeat_interleave(config.seeds)
    members, fixed = len(rates), {"N": N, "lam": lam}
    rule = method.rule
    sides = {"max_side": D} if rule is evon else {}
    state = rule.init(torch.zeros(1, D, dtype=torch.float64), init_precision=method.init_precision, **fixed, **sides)
    state = type(state)(*(_repeated(value, members) for value in state))
    dims = type(state)(*(0 if value.dim() else None for value in state))
    deviate = torch.vmap(lambda q, eps: _deviation(method, q, eps, fixed), (dims, 0))
    curve = torch.vmap(lambda q, g, away: _products(method, q, g, away, fixed), (dims, 0, 0))
    update = torch.vmap(
        lambda q, g, h, alpha: tuple(rule.update(q, g, h, alpha=alpha, **method.update, **fixed)),
        (dims, 0, 0, 0),
        tuple(dims),
    )
    for step, (x, y, eps) in enumerate(batches(config, problem, steps, name)):
        away = deviate(state, eps)
        residual = torch.sigmoid(x @ (state.mu + away).mT) - y
        g = (residual * x).mean(1, keepdim=True)
        if method.curvature == "reparameterised":
            h = curve(state, g, away)
        else:
            h = g * g if method.curvature == "magnitude" else (residual**2 * x**2).mean(1, keepdim=True)
        alpha = rates * (1 + math.cos(math.pi * step / steps)) / 2
        state = type(state)(*update(state, g, h, alpha))
        context.report((step + 1) / steps)
    along = rule.precision(state, **fixed, **method.precision).squeeze(1)
    if rule is not evon:
        return state.mu.squeeze(1), torch.diag_embed(along)
    return state.mu.squeeze(1), state.QR @ (along[:, :, None] * state.QR.mT)


def _deviation(method: Method, state: Any, eps: Tensor, fixed: dict[str, float]) -> Tensor:
    if hasattr(method.rule, "deviation"):
        found: Tensor = method.rule.deviation(state, eps, **fixed)
        return found
    return eps * method.rule.precision(state, **fixed, **method.precision).rsqrt()


def _products(method: Method, state: Any, g: Tensor, away: Tensor, fixed: dict[str, float]) -> Tensor:
    if hasattr(method.rule, "products"):
        found: Tensor = method.rule.products(state, g, away, **fixed)
        return found
    return g * away * method.rule.precision(state, **fixed, **method.precision)


def batches(config: Config, problem: Problem, steps: int, name: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield minibatches [E, M, D], their labels [E, M, 1] and the noise [E, 1, D], from shuffled epochs without their last part."""
    N, M, D = len(problem.y), problem.batch_size, problem.X.shape[1]
    random, copies = generator(config.seed, name), (len(config.rates), 1, 1)
    done = 0
    while True:
        orders = torch.stack([torch.randperm(N, generator=random) for _ in range(config.seeds)])
        for rows in orders[:, : N // M * M].split(M, dim=1):
            eps = torch.randn(config.seeds, 1, D, generator=random, dtype=torch.float64)
            x, y = problem.X[rows], problem.y[rows][..., None]
            yield x.repeat(copies), y.repeat(copies), eps.repeat(copies)
            done += 1
            if done == steps:
                return


def _repeated(value: Tensor | float, members: int) -> Tensor:
    """Return a tensor once for every member, and a number as a tensor that they share."""
    if isinstance(value, Tensor):
        return value.expand(members, *value.shape)
    return torch.tensor(value, dtype=torch.float64)


def _chunks(values: list[float | None], size: int) -> Iterator[list[float | None]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _mean(values: list[float | None]) -> float:
    """Return the mean; minus infinity if a run has diverged."""
    found = [value for value in values if value is not None and math.isfinite(value)]
    return sum(found) / len(found) if len(found) == len(values) else -math.inf


def _shape(mean: Tensor, precision: Tensor) -> dict[str, Any]:
    """Return mean and covariance where they can be drawn, in two dimensions."""
    return {"mean": mean, "covariance": torch.linalg.inv(precision)} if len(mean) == 2 else {}
