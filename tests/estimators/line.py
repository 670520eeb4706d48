"""Targets on a line, with noise, from three features of different sizes."""

import numpy as np


def line(n=120, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1, 10, 100] + 5
    return X, 2 * X[:, 0] - 0.1 * X[:, 1] + 50 + noise * rng.normal(size=n)
