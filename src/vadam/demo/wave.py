"""A curve with a gap in the inputs: a posterior should be uncertain where there are no data.

    y = 2 sin(3x/2) + ε,  ε ~ N(0, 0.2²),  x uniform on [−4.5, −1.5] ∪ [1.5, 4.5]

The network sees the input through soft bins, each near 1 close to its centre and near 0 elsewhere. Weights of bins
without data keep their prior, so the band widens there. On the raw input all units see all data. Far outside they
are saturated, and the posterior is as certain there as among the data. The demo shows both.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from vadam import Gaussian
from vadam.demo.regression import Learned, Problem

NOISE_STD = 0.2
NEAREST, FARTHEST = 1.5, 4.5
EDGE = 6.5
BINS, HIDDEN = 24, 20
RAW_PRIOR_PRECISION = 0.1  # weaker than with bins: a curve on the raw input needs larger weights


class SoftBins(nn.Module):
    """Features φₖ(x) = exp(−(x − cₖ)²/2w²) with centres cₖ evenly over [−edge, edge] and no weights."""

    centres: Tensor

    def __init__(self, bins: int = BINS, edge: float = EDGE, width: float = 0.6) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("centres", torch.linspace(-edge, edge, bins))

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-0.5 * ((x - self.centres) / self.width) ** 2)


@dataclass(frozen=True)
class Band:
    """Predictions on a grid: the mean, the standard deviation of f over the posterior, and the 90 % interval of y."""

    x: np.ndarray
    mean: np.ndarray
    epistemic: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def among_data(self) -> float:
        """Return the mean standard deviation of f over the inputs with data."""
        distance = np.abs(self.x)
        return float(self.epistemic[(distance >= NEAREST) & (distance <= FARTHEST)].mean())

    @property
    def in_gap(self) -> float:
        """Return the mean standard deviation of f over the middle third of the gap."""
        return float(self.epistemic[np.abs(self.x) <= NEAREST / 3].mean())

    @property
    def beyond(self) -> float:
        """Return the mean standard deviation of f at the two ends of the grid, far from all data."""
        return float(self.epistemic[[0, -1]].mean())


def curve(x: Tensor) -> Tensor:
    """Return the curve without noise."""
    return 2 * torch.sin(1.5 * x)


def problem(num_data: int = 80, num_test: int = 200) -> Problem:
    """Return the regression problem; test rows cover the whole range, including the gap and both ends."""
    random = np.random.default_rng(0)
    x = random.uniform(NEAREST, FARTHEST, num_data) * random.choice([-1.0, 1.0], num_data)
    noise, noise_test = random.standard_normal(num_data), random.standard_normal(num_test)
    inputs, inputs_test = _column(np.sort(x)), _column(np.linspace(-EDGE, EDGE, num_test))
    return Problem(
        x=inputs,
        y=curve(inputs) + NOISE_STD * _column(noise),
        x_test=inputs_test,
        y_test=curve(inputs_test) + NOISE_STD * _column(noise_test),
        likelihood=Gaussian(noise_precision=1 / NOISE_STD**2),
        network=lambda: nn.Sequential(SoftBins(), nn.Linear(BINS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)),
    )


def raw(binned: Problem) -> Problem:
    """Return the same data and hidden layer without the bins."""
    return Problem(
        binned.x, binned.y, binned.x_test, binned.y_test, binned.likelihood,
        network=lambda: nn.Sequential(nn.Linear(1, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)),
        prior_precision=RAW_PRIOR_PRECISION,
    )  # fmt: skip


def band(learned: Learned, points: int = 181) -> Band:
    """Return the predictions of a trained network on a grid."""
    grid = torch.linspace(-EDGE, EDGE, points)
    prediction = learned.predict(grid[:, None])
    low, high = prediction.interval(0.9)
    return Band(*(values.flatten().numpy() for values in (grid, prediction.mean, prediction.epistemic, low, high)))


def _column(values: np.ndarray) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)[:, None]
