from dataclasses import dataclass

from vadam_paper.experiments.config import Config as BaseConfig


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    experiment: str = "trained"
    networks: int = 6
    steps: int = 20


def preset(preset: str, protocol: str) -> Config:
    return Config(preset=preset, protocol=protocol)
