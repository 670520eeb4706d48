"""Settings of the toy example of App. L; the text gives the objective only, the other settings are ours."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "local-minima"
    steps: int = 10_000
    annealed_until: float = 0.5
    """τ falls from 1 to 0 over this fraction of the steps and stays at 0."""
    alpha: float = 0.005
    gamma1: float = 0.9
    gamma2: float = 0.9
    prior_precision: float = 1.0
    gradient_descent_rate: float = 0.002
    start: float = 0.8
    """The four starts are (± start, ± start)."""
    seeds: int = 100
    shift: float = 0.5
    """Distance by which the landscape is moved away from the prior mean in the control."""
    grid: int = 31
    path_points: int = 250


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"steps": 60, "seeds": 2, "grid": 5, "path_points": 20},
    "quick": {"steps": 5_000, "seeds": 20, "grid": 15},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
