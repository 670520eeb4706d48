"""Record the learning curve of a trial: test returns, and the standard deviations of its weights."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadam.optim.base import VariationalOptimizer


class Curve:
    def __init__(self) -> None:
        self.points: list[dict[str, Any]] = []

    def add(self, step: int, returns: np.ndarray, spread: dict[str, float]) -> None:
        self.points.append({"step": step, "mean": float(returns.mean()), "std": float(returns.std(ddof=1)), **spread})

    def summary(self) -> dict[str, list[Any]]:
        names = dict.fromkeys(name for point in self.points for name in point)
        return {name: [_short(point.get(name)) for point in self.points] for name in names}


def precisions(optimizer: torch.optim.Optimizer) -> Tensor | None:
    """Return 1/σ² of every weight as it is sampled, or None if nothing is sampled."""
    if not isinstance(optimizer, VariationalOptimizer):
        return None
    extra = optimizer.defaults.get("sampling_precision", 0.0)
    return torch.cat([precision.flatten() for precision in optimizer.posterior().precision.values()]) + extra


def spread(now: Tensor | None, before: Tensor | None) -> dict[str, float]:
    """Return mean and extremes of σ, and the fractions of weights whose variance grew or shrank since the last point."""
    if now is None:
        return {}
    sigma = now.rsqrt()
    numbers = {"sigma": sigma.mean(), "sigma_min": sigma.min(), "sigma_max": sigma.max()}
    if before is not None:
        numbers["grown"] = (now < before).float().mean()
        numbers["shrunk"] = (now > before).float().mean()
    return {name: float(value) for name, value in numbers.items()}


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
