"""A network of 49 weights: correlations by EVON beside those by FullVON, from the same start, with full batches.

A network has many equivalent posteriors, one for each order of its hidden units. All methods therefore start at the same
maximum of the posterior and describe the one around it.
"""

import math
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from vadam import optim
from vadam.gaussian import FullGaussian, MeanFieldGaussian, RotatedGaussian
from vadam.likelihoods import Gaussian
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.correlated.config import Config
from vadam_paper.experiments.randomness import generator

N, INPUTS, HIDDEN = 200, 4, 8
NOISE_PRECISION = 25.0
PRIOR_PRECISION = 1.0
RATE, SAMPLES, HESS_INIT = 0.02, 4, 10.0
BETA2 = 0.998


def problem(config: Config) -> tuple[Tensor, Tensor]:
    """Return 200 points of a smooth function of four inputs, two of which nearly repeat each other."""
    random = generator(config.seed, "network")
    x = torch.randn(N, INPUTS, generator=random, dtype=torch.float64)
    x[:, 1] = 0.9 * x[:, 0] + math.sqrt(1 - 0.9**2) * x[:, 1]
    clean = (x[:, 0] + 0.5 * x[:, 2]).sin() + 0.5 * x[:, 1] * x[:, 3].tanh()
    noise = torch.randn(N, generator=random, dtype=torch.float64) / math.sqrt(NOISE_PRECISION)
    return x, (clean + noise)[:, None]


def start(config: Config, context: CellContext) -> nn.Module:
    """Return the network at a maximum of the posterior, by Adam with full batches."""
    x, y = problem(config)
    torch.manual_seed(config.seed)
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)).double()
    adam, likelihood = torch.optim.Adam(model.parameters(), 0.02), Gaussian(noise_precision=NOISE_PRECISION)
    for step in range(config.map_steps):
        adam.param_groups[0]["lr"] = 0.02 * _cosine(step / config.map_steps)
        adam.zero_grad()
        squares = sum((p**2).sum() for p in model.parameters())
        (likelihood.nll(model(x), y) + PRIOR_PRECISION / N / 2 * squares).backward()
        adam.step()
        context.report(0.2 * step / config.map_steps)
    return model


def reference(config: Config, context: CellContext) -> dict[str, Any]:
    """Return mean, precision and correlations of FullVON, and how near posteriors without some of the correlations can come."""
    model = start(config, context)
    make: dict[str, Any] = {
        "beta": BETA2,
        "init_precision": HESS_INIT * N + PRIOR_PRECISION,
        "num_data": N,
        "prior_precision": PRIOR_PRECISION,
    }
    opt = optim.FullVON(model.parameters(), RATE, samples=SAMPLES, generator=generator(config.seed, "full"), **make)
    _train(config, model, opt, config.full_steps, context, differentiates=False)
    post = opt.posterior(model)
    P = post.precision
    blocks = [P[a:b, a:b] for a, b in pairwise(accumulate(_sizes(model), initial=0))]
    return {
        "mean": post.mean,
        "precision": P,
        "correlation": correlation(P),
        "sizes": _sizes(model),
        "nearest_diagonal_kl": float(0.5 * (P.diagonal().log().sum() - torch.logdet(P))),
        "nearest_blocks_kl": float(0.5 * (sum(torch.logdet(block) for block in blocks) - torch.logdet(P))),
    }


def compare(config: Config, method: str, context: CellContext) -> dict[str, Any]:
    """Return, for every seed, how far the posterior of EVON or IVON is from FullVON's, and the correlations of the first."""
    full = context.result_of("network.full")
    mean, P = (torch.tensor(full[name], dtype=torch.float64) for name in ("mean", "precision"))
    wanted = torch.tensor(full["correlation"], dtype=torch.float64)
    inside = _same_tensor(full["sizes"])
    results: dict[str, Any] = {"kl": [], "rmse": [], "rmse_inside": [], "agreement_inside": []}
    for seed in range(config.network_seeds):
        q = _posterior(config, method, seed, context)
        found = correlation(q.precision)
        results["kl"].append(float(q.kl_to(FullGaussian(mean, (P + P.mT) / 2, q.shapes))))
        results["rmse"].append(_rmse(found, wanted, _pairs(len(mean))))
        results["rmse_inside"].append(_rmse(found, wanted, inside))
        if method == "evon":
            results["agreement_inside"].append(
                float(torch.corrcoef(torch.stack([found[inside], wanted[inside]]))[0, 1])
            )
        if seed == 0:
            results["correlation"] = found
    zero = torch.zeros_like(wanted)
    return results | {
        "diagonal_rmse": _rmse(zero, wanted, _pairs(len(mean))),
        "diagonal_rmse_inside": _rmse(zero, wanted, inside),
    }


def correlation(precision: Tensor) -> Tensor:
    covariance = torch.linalg.inv(precision)
    sigma = covariance.diagonal().sqrt()
    return covariance / torch.outer(sigma, sigma)


def _posterior(config: Config, method: str, seed: int, context: CellContext) -> FullGaussian:
    model = start(config, context)
    kind: Callable[..., optim.VariationalOptimizer] = {"evon": optim.EVON, "ivon": optim.IVON}[method]
    data = {"num_data": N, "prior_precision": PRIOR_PRECISION}
    how = {"betas": (0.9, BETA2), "hess_init": HESS_INIT, "clip_radius": math.inf, "rescale_lr": False}
    random = generator(config.seed, method, seed)
    opt = kind(model.parameters(), RATE, samples=SAMPLES, generator=random, **how, **data)
    _train(config, model, opt, config.network_steps, context)
    post = opt.posterior(model)
    return post.full() if isinstance(post, RotatedGaussian) else _full(post)


def _full(post: Any) -> FullGaussian:
    assert isinstance(post, MeanFieldGaussian)
    return FullGaussian.of(post)


def _train(
    config: Config,
    model: nn.Module,
    opt: optim.VariationalOptimizer,
    steps: int,
    context: CellContext,
    *,
    differentiates: bool = True,
) -> None:
    (x, y), likelihood = problem(config), Gaussian(noise_precision=NOISE_PRECISION)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = likelihood.nll(model(x), y)
        if differentiates:
            loss.backward()
        return loss

    for step in range(steps):
        opt.param_groups[0]["lr"] = RATE * _cosine(step / steps)
        opt.step(closure)
        context.report(0.2 + 0.8 * step / steps)


def _cosine(done: float) -> float:
    return (1 + math.cos(math.pi * done)) / 2


def _sizes(model: nn.Module) -> list[int]:
    return [p.numel() for p in model.parameters()]


def _pairs(D: int) -> Tensor:
    """Return the pairs i < j as a mask [D, D]."""
    return torch.ones(D, D, dtype=torch.bool).triu(1)


def _same_tensor(sizes: list[int]) -> Tensor:
    """Return the pairs i < j of weights of one tensor as a mask."""
    which = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return (which[:, None] == which[None, :]) & _pairs(len(which))


def _rmse(found: Tensor, wanted: Tensor, where: Tensor) -> float:
    return float((found - wanted)[where].square().mean().sqrt())
