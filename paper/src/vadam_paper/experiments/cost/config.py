"""Settings: the network and the number of rounds."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "cost"
    sizes: tuple[int, ...] = (784, 400, 400, 10)
    batch_size: int = 128
    rounds: int = 200
    compiled: bool = True
    """True to measure steps with torch.compile too."""
    revision: int = 3


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"sizes": (20, 10, 3), "batch_size": 16, "rounds": 3, "compiled": False},
    "quick": {"rounds": 50},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
