"""Train a method on a regression problem and evaluate it on held-out rows."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LinearLR

from vadam import Gaussian, MeanFieldGaussian, metrics, predict
from vadam.demo.methods import Method, posterior
from vadam.likelihoods import Likelihood
from vadam.prediction import Regression

BATCH_SIZE = 8
DRAWS = 200
LEVEL = 0.9
FINAL_RATE = 0.05  # the learning rate falls linearly to this share of itself
SEED = 0

ReportProgress = Callable[[float], None]
"""Called every few steps with the fraction that is done."""


@dataclass(frozen=True)
class Problem:
    """Training and test rows of a regression, in the units of the network.

    In the units of the target, y is ``unit * y + center``.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    likelihood: Gaussian
    network: Callable[[], nn.Module]
    prior_precision: float = 1.0
    unit: float = 1.0
    center: float = 0.0


@dataclass(frozen=True)
class Score:
    """Scores on the test rows, in the units of the target; ``log_likelihood`` is pointwise, a mean in nats.

    ``rmse_halves`` splits the rows by epistemic standard deviation: the RMSE of the more certain half and of the other.
    """

    rmse: float
    log_likelihood: float
    coverage: float
    rmse_halves: tuple[float, float] | None
    seconds: float


@dataclass(frozen=True)
class Learned:
    """A trained network, its posterior, and the seconds that training took."""

    network: nn.Module
    posterior: MeanFieldGaussian
    likelihood: Gaussian
    seconds: float

    def predict(self, x: Tensor) -> Regression:
        draws = DRAWS if self.posterior.mean else 1  # all draws from a point are the same
        prediction = predict(
            self.network, self.posterior, x, draws, likelihood=self.likelihood, generator=_generator(SEED + 2)
        )
        assert isinstance(prediction, Regression)
        return prediction


def learn(problem: Problem, method: Method, steps: int, report: ReportProgress) -> Learned:
    """Train a method; all methods start at the same weights and see the same minibatches."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        network = problem.network()
    optimizer = method.build(
        network, num_data=len(problem.x), prior_precision=problem.prior_precision, generator=_generator(SEED + 1)
    )
    started = time.perf_counter()
    train(network, optimizer, problem.likelihood, problem.x, problem.y, steps, BATCH_SIZE, report)
    seconds = time.perf_counter() - started
    return Learned(network, posterior(network, optimizer), problem.likelihood, seconds)


def train(
    network: nn.Module,
    optimizer: Optimizer,
    likelihood: Likelihood,
    x: Tensor,
    y: Tensor,
    steps: int,
    batch_size: int,
    report: ReportProgress,
) -> None:
    """Train with any optimizer: the closure computes the loss, ``step`` decides at which weights."""
    rate = LinearLR(optimizer, 1.0, FINAL_RATE, steps)
    generator = _generator(SEED)

    def gradient(rows: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = likelihood.nll(network(x[rows]), y[rows])
        loss.backward()
        return loss

    for step in range(steps):
        rows = torch.randint(len(x), (batch_size,), generator=generator)
        optimizer.step(partial(gradient, rows))  # type: ignore[arg-type]
        rate.step()
        if step % 50 == 49:
            report((step + 1) / steps)


def evaluate(problem: Problem, learned: Learned) -> Score:
    """Return the scores of a trained network on the test rows."""
    prediction, y = learned.predict(problem.x_test), problem.y_test
    low, high = prediction.interval(LEVEL)
    unit = torch.tensor(problem.unit)
    return Score(
        rmse=float(metrics.rmse(prediction.mean, y) * unit),
        log_likelihood=float(metrics.log_likelihood(prediction.log_prob_samples(y)) - unit.log()),
        coverage=float(metrics.coverage(low, high, y)),
        rmse_halves=_halves(prediction, y, problem.unit) if learned.posterior.mean else None,
        seconds=learned.seconds,
    )


def _halves(prediction: Regression, y: Tensor, unit: float) -> tuple[float, float]:
    surest_first = prediction.epistemic.flatten().argsort()
    middle = len(surest_first) // 2
    halves = surest_first[:middle], surest_first[middle:]
    surer, other = (float(metrics.rmse(prediction.mean[rows], y[rows])) * unit for rows in halves)
    return surer, other


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
