from dataclasses import dataclass

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "counting"
    numbers: int = 4
    steps: int = 3
    fails_at: int | None = None
    dies_at: int | None = None


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol)
