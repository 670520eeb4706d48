"""`correlated`: the stack is the library's optimizers, an interrupted training goes on, and the nearest diagonal is the nearest."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import vadam
from vadam.backends.noise import NoiseSource
from vadam.gaussian import FullGaussian
from vadam.likelihoods import Bernoulli
from vadam_paper.data import DataNotAvailable
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.correlated import images, logistic, network
from vadam_paper.experiments.correlated.config import preset
from vadam_paper.experiments.labelled import Labelled

CONFIG = preset("smoke", "text")


def context(folder: Path, key: str = "cell") -> CellContext:
    return CellContext(CONFIG, key, folder)


def small(batch_size: int = 10) -> logistic.Problem:
    random = torch.Generator().manual_seed(0)
    X = torch.randn(40, 3, generator=random, dtype=torch.float64)
    return logistic.Problem(X, (X[:, 0] > 0).double(), 0.5, batch_size)


def front_end(problem: logistic.Problem, method: str, params: object, lr: float) -> vadam.VariationalOptimizer:
    common = {"num_data": len(problem.y), "prior_precision": problem.prior_precision, "lr": lr}
    adam = {"betas": (0.9, 0.999), "init_precision": "prior"}
    successor = {"betas": (0.9, 0.999), "hess_init": 0.1, "clip_radius": math.inf, "rescale_lr": False}
    match method:
        case "vadam":
            return vadam.Vadam(params, **adam, **common)
        case "vadam-batch-size":
            return vadam.Vadam(params, batch_size=problem.batch_size, **adam, **common)
        case "vadam-ggn":
            return vadam.VadamGGN(params, batch_size=problem.batch_size, **adam, **common)
        case "vogn":
            return vadam.VOGN(params, beta=0.999, init_precision="prior", **common)
        case "ivon":
            return vadam.IVON(params, **successor, **common)
    return vadam.EVON(params, **successor, **common)


@pytest.mark.parametrize("method", ["vadam", "vadam-batch-size", "vadam-ggn", "vogn", "ivon", "evon"])
def test_a_member_of_the_stack_is_the_optimizer_with_its_noise(method: str, tmp_path: Path, monkeypatch) -> None:
    problem, steps, rate = small(), 30, 1
    mean, precision = logistic.train(
        CONFIG, problem, logistic.methods(problem)[method], steps, "small", context(tmp_path)
    )
    model = nn.Linear(3, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    opt = front_end(problem, method, model.parameters(), CONFIG.rates[rate])
    if method in ("vadam-ggn", "vogn"):
        opt.attach(model)
    member = rate * CONFIG.seeds
    noise = []
    monkeypatch.setattr(NoiseSource, "normal", lambda *_: lambda n: noise[0][:n].clone())
    for step, (x, y, eps) in enumerate(logistic.batches(CONFIG, problem, steps, "small")):
        noise[:] = [eps[member].flatten()]
        opt.param_groups[0]["lr"] = CONFIG.rates[rate] * (1 + math.cos(math.pi * step / steps)) / 2

        def closure(x: torch.Tensor = x[member], y: torch.Tensor = y[member]) -> torch.Tensor:
            opt.zero_grad()
            loss = Bernoulli().nll(model(x), y)
            loss.backward()
            return loss

        opt.step(closure)
    post = opt.posterior(model)
    full = post.full() if method == "evon" else FullGaussian.of(post)
    torch.testing.assert_close(mean[member], full.mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(precision[member], full.precision, rtol=1e-9, atol=1e-9)


def test_no_diagonal_is_nearer_than_the_nearest(tmp_path: Path) -> None:
    try:
        found = logistic.exact("toy", context(tmp_path))
    except DataNotAvailable as error:
        pytest.skip(str(error))
    full = logistic.exact_posterior("toy", None)
    shapes = {"weight": torch.Size((1, 2))}
    at = FullGaussian(full.mean, torch.diag(full.precision.diagonal()), shapes)
    assert float(at.kl_to(full)) == pytest.approx(found["nearest_diagonal_kl"], rel=1e-9)
    for scale in (0.8, 0.95, 1.05, 1.2):
        other = FullGaussian(full.mean, torch.diag(full.precision.diagonal() * torch.tensor([scale, 1.0])), shapes)
        assert float(other.kl_to(full)) > found["nearest_diagonal_kl"]


@pytest.mark.parametrize("method", ["ivon", "evon"])
def test_an_interrupted_training_goes_on(method: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("vadam_paper.experiments.context.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    config = replace(CONFIG, epochs=3)
    random = torch.Generator().manual_seed(0)
    part = Labelled(torch.randn(64, 1, 28, 28, generator=random), torch.randint(10, (64,), generator=random))
    task = images.Task(part, part, part, part.X)
    how = {"lr": 0.1, "data_weight": 1.0}
    whole, _, _ = images.trained(config, method, how, 0, task, context(tmp_path, "whole"))

    class Stopped(Exception):
        pass

    def stop(fraction: float) -> None:
        if fraction > 0.7:
            raise Stopped

    stopped = CellContext(CONFIG, "stopped", tmp_path, report=stop)
    with pytest.raises(Stopped):
        images.trained(config, method, how, 0, task, stopped)
    resumed, _, _ = images.trained(config, method, how, 0, task, context(tmp_path, "stopped"))
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_pairs_of_one_tensor() -> None:
    mask = network._same_tensor([2, 1, 3])
    assert mask.sum() == 1 + 0 + 3
    assert mask[0, 1]
    assert not mask[1, 2]
    assert mask[3, 5]
