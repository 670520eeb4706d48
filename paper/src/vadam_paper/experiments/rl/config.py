"""Common settings of the reinforcement-learning experiments (paper App. K)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from vadam_paper.experiments.config import Config as BaseConfig

FIRST = ("adam-plain", "sgd-plain", "vadam", "vadagrad")
METHODS = ("vadam", "adam-plain", "sgd-plain", "vadagrad", "adam-explore", "sgd-explore")


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    EXTENT: ClassVar = ("trials_of",)

    environment: str
    methods: tuple[str, ...] = METHODS
    trials: int = 5
    trials_of: dict[str, int] = field(default_factory=dict)
    """Number of trials of the methods that have more than ``trials``."""
    stretches: tuple[int, ...]
    """Time steps at which a trial is recorded: first all trials up to the first one, then all up to the next."""
    block: int = 10_000
    """Time steps between tests and checkpoints. The environment is reset at the start of a block."""
    test_episodes: int = 20
    episode_steps: int = 1000
    sample_every: str = "step"
    policy_gradient: str
    initialisation: str
    explore_on: str
    bootstraps_at_time_limit: bool
    hidden: tuple[int, int] = (400, 300)
    batch_size: int = 64
    critic_lr: float = 1e-3
    tau: float = 1e-3
    gamma: float = 0.99
    buffer_size: int = 1_000_000

    def make_environment(self) -> Any:
        import gymnasium

        return gymnasium.make(self.environment, max_episode_steps=self.episode_steps)

    def schedule(self) -> dict[str, Any]:
        """Return the update schedule: one update after every time step."""
        return {"train_freq": 1, "gradient_steps": 1}


PROTOCOLS: dict[str, dict[str, Any]] = {
    "authors": {
        "policy_gradient": "sum",
        "initialisation": "authors",
        "explore_on": "precision",
        "bootstraps_at_time_limit": False,
    },
    "text": {
        "policy_gradient": "mean",
        "initialisation": "fan-in",
        "explore_on": "variance",
        "bootstraps_at_time_limit": True,
    },
}
