"""One trial: a model, trained in blocks and tested after each.

Every block seeds its random numbers by (seed, trial, block) and starts with a reset of the environment. A trial resumed
from a checkpoint of its networks, optimizers and replay buffer therefore equals the uninterrupted trial.
"""

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise, OrnsteinUhlenbeckActionNoise
from torch import Tensor

from vadam.integrations.sb3 import ParameterNoiseDDPG
from vadam_paper.experiments.optimizer_state import load_tensors, tensors_of
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.rl.config import Config
from vadam_paper.experiments.rl.curve import Curve, precisions, spread
from vadam_paper.experiments.rl.methods import Method
from vadam_paper.experiments.rl.networks import LillicrapPolicy
from vadam_paper.experiments.rl.testing import episode_returns

BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class Trial:
    """A model in training, with its test environments and its learning curve."""

    def __init__(self, config: Config, method: Method, number: int) -> None:
        self.config, self.number = config, number
        self.tests = [config.make_environment() for _ in range(config.test_episodes)]
        self.model = ParameterNoiseDDPG(
            LillicrapPolicy,
            config.make_environment(),
            method.optimizer,
            method.arguments,
            method.sample_every or config.sample_every,  # type: ignore[arg-type]
            config.policy_gradient,  # type: ignore[arg-type]
            config.critic_lr,
            action_noise=self._action_noise(method),
            learning_starts=config.batch_size,
            batch_size=config.batch_size,
            tau=config.tau,
            gamma=config.gamma,
            buffer_size=min(config.buffer_size, max(config.stretches)),
            replay_buffer_kwargs={"handle_timeout_termination": config.bootstraps_at_time_limit},
            policy_kwargs={"net_arch": list(config.hidden), "initialisation": config.initialisation},
            seed=self._seed("start"),
            device="cpu",
            **config.schedule(),
        )
        self.model.set_logger(Logger(None, []))  # otherwise every block creates a temporary folder
        self.curve = Curve()
        self._precisions: Tensor | None = None

    @property
    def step(self) -> int:
        return self.model.num_timesteps

    def advance(self, until: int) -> None:
        """Train one block, or less if ``until`` is nearer, and test."""
        seed = self._seed("block", self.step)
        self.model.set_random_seed(seed)
        environment = self.model.get_env()
        assert environment is not None
        self.model.set_env(environment)  # resets it
        self.model.learn(min(self.config.block, until - self.step), reset_num_timesteps=False, log_interval=None)
        self.test()

    def test(self) -> None:
        seeds = [self._seed("test", self.step, episode) for episode in range(len(self.tests))]
        now = precisions(self.model.actor.optimizer)
        returns = episode_returns(self.model, self.tests, seeds)
        self.curve.add(self.step, returns, spread(now, self._precisions))
        self._precisions = now

    def close(self) -> None:
        for environment in self.tests:
            environment.close()
        if (training := self.model.get_env()) is not None:
            training.close()

    def remembered(self, name: str) -> np.ndarray:
        """Return a field of the replay buffer, such as "rewards" or "actions"."""
        buffer = self.model.replay_buffer
        assert buffer is not None
        content: np.ndarray = getattr(buffer, name)[: buffer.buffer_size if buffer.full else buffer.pos]
        return content

    def tensors(self) -> dict[str, Tensor]:
        kept = {f"policy/{name}": value for name, value in self.model.policy.state_dict().items()}
        kept |= {f"buffer/{name}": torch.from_numpy(self.remembered(name).copy()) for name in BUFFER}
        for name, optimizer in self._optimizers().items():
            kept |= tensors_of(optimizer, name)
        return kept

    def meta(self) -> dict[str, Any]:
        buffer = self.model.replay_buffer
        assert buffer is not None
        return {
            "step": self.step,
            "updates": self.model._n_updates,
            "position": buffer.pos,
            "full": bool(buffer.full),
            "points": self.curve.points,
        }

    def load(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        model, buffer = self.model, self.model.replay_buffer
        assert buffer is not None
        model.policy.load_state_dict(
            {k.removeprefix("policy/"): v for k, v in tensors.items() if k.startswith("policy/")}
        )
        for name in BUFFER:
            value: np.ndarray = tensors[f"buffer/{name}"].numpy()
            getattr(buffer, name)[: len(value)] = value
        for name, optimizer in self._optimizers().items():
            load_tensors(optimizer, name, tensors)
        buffer.pos, buffer.full = meta["position"], meta["full"]
        model.num_timesteps, model._n_updates, self.curve.points = meta["step"], meta["updates"], meta["points"]
        self._precisions = precisions(model.actor.optimizer)

    def _action_noise(self, method: Method) -> ActionNoise | None:
        nothing = np.zeros(self.tests[0].action_space.shape or ())
        if not method.action_noise:
            return None
        if method.noise_pull:
            return OrnsteinUhlenbeckActionNoise(nothing, nothing + method.action_noise, method.noise_pull, dt=1.0)
        return NormalActionNoise(nothing, nothing + method.action_noise)

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"actor.optimizer": self.model.actor.optimizer, "critic.optimizer": self.model.critic.optimizer}

    def _seed(self, *names: object) -> int:
        """Return a seed that all methods of a trial share."""
        return int(torch.randint(1 << 31, (), generator=generator(self.config.seed, "trial", self.number, *names)))
