"""What a trial shows along its way: test returns, and how far its weights spread."""

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
    """1/σ² of every weight, as it is sampled; None where nothing is sampled."""
    if not isinstance(optimizer, VariationalOptimizer):
        return None
    extra = optimizer.defaults.get("sampling_precision", 0.0)
    return torch.cat([precision.flatten() for precision in optimizer.posterior().precision.values()]) + extra


def spread(now: Tensor | None, before: Tensor | None) -> dict[str, float]:
    """The mean σ, its extremes, and the shares of weights whose variance has grown, or shrunk, since the point before."""
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
