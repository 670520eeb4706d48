"""Shift images [n, 1, h, w] with grey values in [0, 1]: rotate them, or add noise."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def rotated(X: Tensor, degrees: float) -> Tensor:
    """Rotate counter-clockwise about the centre, with linear interpolation; what comes from outside is black."""
    angle = math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    turn = torch.tensor([[cos, -sin, 0.0], [sin, cos, 0.0]], dtype=X.dtype)
    grid = F.affine_grid(turn.expand(len(X), 2, 3), list(X.shape), align_corners=False)
    return F.grid_sample(X, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def noisy(X: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    """Add Gaussian noise to every pixel and clip the values to [0, 1]."""
    return (X + deviation * torch.randn(X.shape, generator=generator)).clamp(0, 1)
