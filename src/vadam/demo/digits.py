"""Handwritten digits: one network by AdamW and one by Vadam, with the same steps, rate and minibatches.

The 1,797 images of 8 x 8 pixels come with scikit-learn. A third is for training. Out-of-distribution (OOD) inputs are test digits that are
inverted or lie on their side, and noise. Vadam's settings are those of ``vadam.from_adam``; nothing is tuned here.
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

import vadam
from vadam import MeanFieldGaussian, metrics
from vadam.demo.regression import SEED, ReportProgress
from vadam.prediction import Classes

METHODS = ("AdamW", "Vadam")
TRAINING_IMAGES = 599
BATCH_SIZE = 32
RATE = 3e-3
DRAWS = 32
BINS = 10
COVERAGE = 0.8
RISK = 0.01
REPORTED_EVERY = 20


@dataclass(frozen=True)
class Images:
    """Training and test images with their classes, and OOD inputs by kind."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    foreign: dict[str, Tensor]


@dataclass(frozen=True)
class Doubt:
    """Scores of a classifier on test images, and the curves of its figures.

    ``answered`` is the largest share of test images, the surest first, of which at most 1 % are wrong; ``error_at_coverage`` the error of
    the surest 80 %. ``risk[k]`` is the error of the surest (k + 1)/len(risk).
    """

    accuracy: float
    nll: float
    ece: float
    auroc: dict[str, float]
    answered: float
    error_at_coverage: float
    seconds: float
    risk: list[float]
    confidence: list[float]
    right: list[float]
    home_entropy: list[float]
    foreign_entropy: list[float]

    def as_json(self) -> dict[str, Any]:
        curves = ("risk", "confidence", "right", "home_entropy", "foreign_entropy")
        return {name: value for name, value in asdict(self).items() if name not in curves}


def images() -> Images:
    """Return the digits in a fixed split."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError('The digits of the demo come with scikit-learn: pip install "vadam[sklearn]".') from error
    found = load_digits()
    X = torch.as_tensor(found.images, dtype=torch.float32)[:, None] / 16
    y = torch.as_tensor(found.target, dtype=torch.int64)
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(y), generator=generator)
    train, test = order[:TRAINING_IMAGES], order[TRAINING_IMAGES:]
    foreign = {
        "inverted": 1 - X[test],
        "on their side": X[test].rot90(1, (2, 3)),
        "noise": torch.rand(X[test].shape, generator=generator),
    }
    return Images(X[train], y[train], X[test], y[test], foreign)


def network() -> nn.Module:
    """Return a network of two convolutions and two dense layers, 71,000 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def learn(method: str, steps: int, report: ReportProgress) -> Doubt:
    """Train one network and score it; both methods start at the same weights and see the same minibatches."""
    data, likelihood = images(), vadam.Categorical()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = network()
    noise = torch.Generator().manual_seed(SEED + 1)
    begun = time.perf_counter()
    optimizer: torch.optim.Optimizer
    if method == "AdamW":
        optimizer = torch.optim.AdamW(model.parameters(), RATE, fused=True)
    else:
        optimizer = vadam.from_adam(
            model, num_data=len(data.y), batch_size=BATCH_SIZE, lr=RATE, steps=steps, generator=noise
        )
    order = torch.Generator().manual_seed(SEED)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 + math.cos(math.pi * step / steps)) / 2
        rows = torch.randint(len(data.y), (BATCH_SIZE,), generator=order)
        optimizer.zero_grad()
        likelihood.nll(model(data.x[rows]), data.y[rows]).backward()
        optimizer.step()
        if step % REPORTED_EVERY == 0:
            report(step / steps)
    seconds = time.perf_counter() - begun
    model.eval()
    if isinstance(optimizer, vadam.VariationalOptimizer):
        posterior = optimizer.posterior(model)
    else:
        posterior = MeanFieldGaussian({}, {}, point={name: p.detach() for name, p in model.named_parameters()})
    draws = vadam.Draws(posterior, DRAWS if posterior.mean else 1, generator=torch.Generator().manual_seed(SEED + 2))

    def predict(x: Tensor) -> Classes:
        found = vadam.predict(model, draws, x, len(draws), likelihood=likelihood, batch_size=400)
        assert isinstance(found, Classes)
        return found

    return judge(predict(data.x_test), data.y_test, {kind: predict(x) for kind, x in data.foreign.items()}, seconds)


def judge(home: Classes, y: Tensor, away: dict[str, Classes], seconds: float) -> Doubt:
    """Score predictions for test images and for OOD inputs."""
    wrong = (home.label != y).double()[home.entropy.argsort(stable=True)]
    risk = wrong.cumsum(0) / torch.arange(1, len(y) + 1)
    within = (risk <= RISK).nonzero()
    confidence, right, count = metrics.reliability_curve(home.probs, y, BINS)
    shown = count > 0
    return Doubt(
        accuracy=float(metrics.accuracy(home.probs, y)),
        nll=-float(home.log_prob(y).mean()),
        ece=float(metrics.ece(home.probs, y, BINS)),
        auroc={kind: _auroc(home.entropy, other.entropy) for kind, other in away.items()},
        answered=(int(within.max()) + 1) / len(y) if len(within) else 0.0,
        error_at_coverage=float(risk[max(0, round(COVERAGE * len(y)) - 1)]),
        seconds=seconds,
        risk=risk.tolist(),
        confidence=confidence[shown].tolist(),
        right=right[shown].tolist(),
        home_entropy=home.entropy.tolist(),
        foreign_entropy=torch.cat([other.entropy for other in away.values()]).tolist(),
    )


def _auroc(home: Tensor, away: Tensor) -> float:
    entropy = torch.cat([home, away])
    return float(metrics.auroc(entropy, (torch.arange(len(entropy)) >= len(home)).long()))
