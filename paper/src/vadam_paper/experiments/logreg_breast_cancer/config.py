"""Settings of Fig. 2c (paper App. I.2)."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "logreg-breast-cancer"
    prior_precision: float = 1.0
    restarts: int = 20
    batch_sizes: tuple[int, ...] = (1, 8, 16, 32, 64)
    vadam_epochs: int = 10_000
    vogn_epochs: int = 2_000
    compiled: bool = True


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"restarts": 3, "vadam_epochs": 1, "vogn_epochs": 1, "compiled": False},
    "quick": {"vadam_epochs": 200, "vogn_epochs": 200, "compiled": False},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
