"""Settings of Fig. 2a (paper App. I.1)."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "logreg-toy"
    prior_precision: float = 0.01
    iterations: int = 500_000
    runs: int = 20
    """Number of independent runs; the paper shows one."""
    batch_size: int = 10
    alpha0: float = 0.1
    one_minus_beta0: float = 0.1
    start: float = 1.0
    """Initial value of both coordinates of the mean."""
    compiled: bool = True


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"iterations": 300, "runs": 3, "compiled": False},
    "quick": {"iterations": 30_000, "compiled": False},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
