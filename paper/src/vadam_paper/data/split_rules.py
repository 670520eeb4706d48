"""The published train/test splits, generated from their rules: nothing to ship, nothing to read."""

import numpy as np

from vadam.data import NUM_SPLITS, Split
from vadam.data import gal_splits as gal

__all__ = ["first_rows", "gal", "halves", "presplit"]


def halves(n: int) -> tuple[Split, ...]:
    """The 20 random 50/50 splits of the logistic-regression experiments, seeds 1 to 20."""
    return tuple(_cut(np.argsort(np.random.RandomState(seed).rand(n)), n // 2) for seed in range(1, NUM_SPLITS + 1))


def presplit(n: int, *, draws_before: int = 0) -> tuple[Split, ...]:
    """The one 50/50 split of the authors' ``*_presplit`` files: both sets were split from one stream seeded with 1."""
    u = np.random.RandomState(1).rand(draws_before + n)[draws_before:]
    return (_cut(np.argsort(u), n // 2),)


def first_rows(n: int, *, num_train: int) -> tuple[Split, ...]:
    """A set published as a train file followed by a test file."""
    return (_cut(np.arange(n), num_train),)


def _cut(order: np.ndarray, num_train: int) -> Split:
    order = order.astype(np.int64)
    return Split(train=order[:num_train], test=order[num_train:])
