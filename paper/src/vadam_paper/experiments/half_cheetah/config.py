"""Settings of Fig. 3 right and App. K."""

from dataclasses import dataclass
from typing import Any

from vadam_paper.experiments.rl.config import PROTOCOLS
from vadam_paper.experiments.rl.config import Config as SharedConfig

QUICK = ("vadam", "adam-plain", "sgd-plain")
DECIDING = {"vadam": 11, "adam-plain": 11, "vadagrad": 14, "sgd-plain": 14}
"""Trials that decide Vadam against Adam-Plain and VadaGrad against SGD-Plain at 100,000 steps.

They were fixed in advance, from the differences and spreads of the first five trials.
"""


@dataclass(frozen=True, kw_only=True)
class Config(SharedConfig):
    experiment: str = "half-cheetah"
    environment: str = "HalfCheetah-v5"


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "trials": 1,
        "stretches": (200,),
        "block": 100,
        "test_episodes": 2,
        "episode_steps": 50,
        "hidden": (40, 30),
    },
    "quick": {"methods": QUICK, "trials": 2, "stretches": (30_000,)},
    "early": {"stretches": (100_000, 200_000), "trials_of": DECIDING},
    "paper": {"stretches": (200_000, 3_000_000)},
}


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol, **(PROTOCOLS[protocol] | PRESETS[preset]))
