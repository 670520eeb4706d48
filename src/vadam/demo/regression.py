"""How a method is trained on a regression and judged on rows that it has not seen."""

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
LAST_RATE = 0.05  # the learning rate falls linearly to this share of itself
SEED = 0

Tell = Callable[[float], None]
"""Called now and then with the share that is done."""


@dataclass(frozen=True)
class Problem:
    """Rows to learn from and rows to judge on, in the units of the network; y in the target's is unit · y + center."""

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
    """On the test rows, in the units of the target; ``log_likelihood`` is pointwise, a mean in nats.

    ``rmse_halves``: of the half of the rows where the method is surest of its function, and of the other half.
    """

    rmse: float
    log_likelihood: float
    coverage: float
    rmse_halves: tuple[float, float] | None
    seconds: float


@dataclass(frozen=True)
class Learned:
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


def learn(problem: Problem, method: Method, steps: int, tell: Tell) -> Learned:
    """Every method starts at the same weights and sees the same minibatches."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        network = problem.network()
    optimizer = method.build(
        network, num_data=len(problem.x), prior_precision=problem.prior_precision, generator=_generator(SEED + 1)
    )
    started = time.perf_counter()
    train(network, optimizer, problem.likelihood, problem.x, problem.y, steps, BATCH_SIZE, tell)
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
    tell: Tell,
) -> None:
    """One loop for Adam and for the family: the closure computes the loss, ``step`` decides at which weights."""
    rate = LinearLR(optimizer, 1.0, LAST_RATE, steps)
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
            tell((step + 1) / steps)


def judge(problem: Problem, learned: Learned) -> Score:
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
