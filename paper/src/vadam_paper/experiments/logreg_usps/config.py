"""Settings of Fig. 2b (paper App. I.2)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar[tuple[str, ...]] = ("corrected",)

    experiment: str = "logreg-usps"
    prior_precision: float = 25.0
    splits: int = 20
    batch_size: int = 64
    vadam_epochs: int = 10_000
    vogn_epochs: int = 200
    corrected: tuple[int, ...] = (2, 8, 64)
    """Minibatch sizes of Vadam with ``batch_size``, beyond the paper."""
    compiled: bool = True


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"splits": 2, "vadam_epochs": 4, "vogn_epochs": 1, "compiled": False},
    "quick": {"splits": 5, "vadam_epochs": 300, "vogn_epochs": 20, "compiled": False},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
