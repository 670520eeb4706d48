import pytest
import torch
from torch import nn


@pytest.fixture
def regression():
    """Return 40 rows with three features in float64."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    return X, torch.sin(X[:, 0]) + 0.1 * torch.randn(40, generator=generator, dtype=torch.float64)


@pytest.fixture
def mlp():
    """Return a factory of new networks 3-4-1."""
    return lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
