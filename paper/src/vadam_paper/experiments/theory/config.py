"""Sizes of the problems on which the theory is checked."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "theory"
    num_data: int = 14
    """Number of data; all 2ᴺ minibatches are enumerated."""
    dimension: int = 5
    fixed_point_steps: int = 5_000
    steps: int = 500
    runs: int = 20
    """Number of repetitions where chance has a part."""
    minibatches: int = 20_000
    """Number of steps of the stochastic methods of §3.4."""
    revision: int = 3


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"num_data": 6, "fixed_point_steps": 60, "steps": 20, "runs": 2, "minibatches": 50},
    "quick": {"num_data": 12, "fixed_point_steps": 2_000, "runs": 5, "minibatches": 5_000},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
