"""Check Theorem 1 by enumeration: E[ĝ²] over all minibatches of size M is w h + (1 − w) g², w = (N − M)/(M(N − 1))."""

from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.theory.config import Config


def check(config: Config) -> dict[str, Any]:
    """Return, per minibatch size, w, the enumerated mean of ĝ², its error, and the bias relative to the GGN."""
    gradients = example_gradients(config)
    N = len(gradients)
    g, h = gradients.mean(0), (gradients**2).mean(0)
    rows = [_size(gradients, M, g, h) for M in range(1, N + 1)]
    return {"num_data": N, "ggn": h, "squared_gradient": g**2, "sizes": rows}


def example_gradients(config: Config) -> Tensor:
    """Return ∇f_i [N, D] of a logistic regression at a random θ."""
    random = generator(config.seed, "theorem-1")
    X = torch.randn(config.num_data, config.dimension, generator=random, dtype=torch.float64)
    y = (torch.rand(config.num_data, generator=random, dtype=torch.float64) < 0.7).double()
    theta = torch.randn(config.dimension, generator=random, dtype=torch.float64)
    return (torch.sigmoid(X @ theta) - y)[:, None] * X


def _size(gradients: Tensor, M: int, g: Tensor, h: Tensor) -> dict[str, Any]:
    N = len(gradients)
    minibatches = torch.tensor(list(combinations(range(N), M)))
    enumerated = (gradients[minibatches].mean(1) ** 2).mean(0)
    w = (N - M) / (M * (N - 1))
    stated = w * h + (1 - w) * g**2
    return {
        "M": M,
        "minibatches": len(minibatches),
        "w": w,
        "enumerated": enumerated,
        "error": (enumerated - stated).abs().max(),
        "relative_bias": ((enumerated - h).abs() / h).mean(),
    }
