"""Settings of `correlated`: three logistic regressions, a small network, LeNet-5."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "correlated"
    seeds: int = 5
    """Repetitions on logistic regression."""
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    """Learning rates that every method tries on logistic regression; the one with the largest ELBO counts."""
    toy_steps: int = 20_000
    breast_cancer_steps: int = 10_000
    usps_steps: int = 6_000
    map_steps: int = 2_000
    network_seeds: int = 3
    full_steps: int = 2_500
    """Steps of FullVON on the small network."""
    network_steps: int = 5_000
    """Steps of EVON and IVON on the small network."""
    train_images: int = 10_000
    validation_images: int = 2_000
    test_images: int = 5_000
    widths: tuple[int, int, int, int] = (6, 16, 120, 84)
    batch_size: int = 128
    epochs: int = 8
    image_rates: tuple[float, ...] = (0.1, 0.3)
    data_weights: tuple[float, ...] = (1.0, 10.0)
    """Settings that LeNet-5 tries: every rate with every weight of the data."""
    image_seeds: int = 3
    samples: int = 16
    """Draws of the weights for a prediction."""


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "seeds": 2,
        "rates": (0.03, 0.1),
        "toy_steps": 40,
        "breast_cancer_steps": 40,
        "usps_steps": 12,
        "map_steps": 50,
        "network_seeds": 2,
        "full_steps": 20,
        "network_steps": 40,
        "train_images": 64,
        "validation_images": 32,
        "test_images": 64,
        "widths": (2, 3, 4, 8),
        "batch_size": 32,
        "epochs": 2,
        "data_weights": (1.0,),
        "image_seeds": 2,
        "samples": 4,
    },
    "quick": {
        "seeds": 2,
        "toy_steps": 5_000,
        "breast_cancer_steps": 5_000,
        "usps_steps": 2_000,
        "full_steps": 1_000,
        "network_steps": 3_000,
        "train_images": 2_000,
        "validation_images": 1_000,
        "test_images": 2_000,
        "epochs": 5,
        "image_seeds": 1,
    },
    "paper": {},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **PRESETS[preset])
