"""A stack of E logistic-regression problems over one pool of rows."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BIAS_PRECISION = 1e-5
"""Prior precision of the bias in the authors' program: nearly flat."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A stack of logistic-regression problems over ``pool`` [R, D] with ``labels`` [R] in {0, 1}.

    Member e trains on the rows ``train[e]`` and is tested on ``test[e]``. ``prior_precision`` is [D]. ``normaliser`` [D]
    is 1 for the prior normalisers that the authors count in their ELBO.
    """

    pool: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor
    prior_precision: Tensor
    normaliser: Tensor

    @property
    def members(self) -> int:
        return self.train.shape[0]

    @property
    def num_data(self) -> int:
        return self.train.shape[1]

    @property
    def dimension(self) -> int:
        return self.pool.shape[1]

    def training_set(self, member: int) -> tuple[Tensor, Tensor]:
        return self.pool[self.train[member]], self.labels[self.train[member]]

    def test_set(self, member: int) -> tuple[Tensor, Tensor]:
        return self.pool[self.test[member]], self.labels[self.test[member]]


def without_bias(
    X: NDArray[np.float64], y: NDArray[np.float64], train: NDArray[np.int64], test: NDArray[np.int64], precision: float
) -> Problem:
    """Return a problem without a bias."""
    D = X.shape[1]
    rows, labels = torch.as_tensor(X), torch.as_tensor(y)
    lam = torch.full((D,), precision, dtype=torch.float64)
    return Problem(rows, labels, torch.as_tensor(train), torch.as_tensor(test), lam, torch.ones_like(lam))


def with_bias(
    X: NDArray[np.float64], y: NDArray[np.float64], train: NDArray[np.int64], test: NDArray[np.int64], precision: float
) -> Problem:
    """Return a problem with a bias as in the authors' program.

    It is a column of ones in front. Its weight has a nearly flat prior whose normaliser is not counted.
    """
    plain = without_bias(np.column_stack([np.ones(len(X)), X]), y, train, test, precision)
    lam, normaliser = plain.prior_precision.clone(), plain.normaliser.clone()
    lam[0], normaliser[0] = BIAS_PRECISION, 0.0
    return Problem(plain.pool, plain.labels, plain.train, plain.test, lam, normaliser)
