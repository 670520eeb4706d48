"""Settings of the mountain car: those of App. K, with a smaller network and larger noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vadam_paper.experiments.rl.config import PROTOCOLS
from vadam_paper.experiments.rl.config import Config as SharedConfig

METHODS = ("vadam-episode", "vadam-step", "adam-action-noise", "adam-correlated-noise", "adam-plain")


@dataclass(frozen=True, kw_only=True)
class Config(SharedConfig):
    experiment: str = "mountain-car"
    environment: str = "MountainCarContinuous-v0"
    methods: tuple[str, ...] = METHODS
    hidden: tuple[int, int] = (32, 32)
    episode_steps: int = 999
    block: int = 3_996
    test_episodes: int = 5
    tau: float = 5e-3
    actor_lr: float = 1e-4
    sampling_precision: float = 10.0
    """c of the paper: every weight starts with σ = 1/√c."""
    action_noise: float = 0.3
    """Standard deviation of the noise on actions, which are in [−1, 1]."""
    correlated_noise: tuple[float, float] = (0.2, 0.15)
    """σ and θ of the Ornstein–Uhlenbeck noise of Lillicrap et al., with a step of 1."""
    train_every: int = 9
    """Time steps between updates. It divides an episode, so that blocks end with an episode."""
    revision: int = 3

    def make_environment(self) -> Any:
        from gymnasium.wrappers import RescaleObservation

        return RescaleObservation(super().make_environment(), np.float32(-1), np.float32(1))

    def schedule(self) -> dict[str, Any]:
        return {"train_freq": self.train_every, "gradient_steps": 1}


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"trials": 1, "stretches": (200,), "block": 100, "episode_steps": 50, "test_episodes": 2},
    "quick": {"trials": 5, "stretches": (15_984,)},
    "paper": {"trials": 10, "stretches": (39_960,)},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **(PROTOCOLS[protocol] | PRESETS[preset]))
