"""Settings of Fig. 3 left (paper App. J.2)."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "australian"
    seeds: int = 20
    """Number of independent runs; the paper shows one."""
    hidden: int = 64
    batch_sizes: tuple[int, ...] = (1, 4, 16, 128)
    samples: tuple[int, ...] = (1, 16)
    prior_precision: float = 1.0
    lr: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    vogn_beta: float = 0.999
    """Decay rate of the curvature average: 0.999 in the authors' program, 0.9 in the text."""
    iterations: int | None = None
    """None for the authors' 16 M epochs."""
    evaluate_every: int = 25
    evaluation_samples: int = 10
    compiled: bool = True


PROTOCOLS: dict[str, dict[str, Any]] = {"authors": {}, "text": {"vogn_beta": 0.9, "iterations": 5_000}}
PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"seeds": 2, "batch_sizes": (1, 128), "iterations": 20, "evaluate_every": 5, "compiled": False},
    "quick": {"seeds": 4, "batch_sizes": (1, 128), "iterations": 1_000, "compiled": False},
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **(PROTOCOLS[protocol] | PRESETS[preset]))
