"""Parameter-space exploration for Stable-Baselines3: DDPG whose actor is a distribution over weights (paper App. K)."""

from __future__ import annotations

from inspect import signature
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

try:
    from stable_baselines3 import DDPG
    from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
    from stable_baselines3.common.noise import ActionNoise
    from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, ReplayBufferSamples, Schedule
    from stable_baselines3.common.utils import polyak_update
    from stable_baselines3.td3.policies import TD3Policy
except ImportError as error:
    raise ImportError('ParameterNoiseDDPG needs Stable-Baselines3: pip install "vadam[rl]"') from error

from vadam.backends.noise import NoiseSource
from vadam.integrations.mujoco import quiet
from vadam.optim import Vadam
from vadam.optim.base import VariationalOptimizer

quiet()

TABLE_3 = {
    "lr": 1e-4,
    "betas": (0.9, 0.999),
    "num_data": 1,
    "prior_precision": 1e-8,
    "init_precision": "prior",
    "sampling_precision": 1e4,
}
"""Settings of the paper's Vadam (Table 3): λ = 1e-8, c = 10000, N = 1."""


class ParameterNoiseDDPG(DDPG):
    """DDPG that explores with sampled weights (paper App. K, Algorithms 1 and 2).

    .. code-block:: text

        at every time step
            θ ~ N(μ, σ²)                                          the actor's optimizer knows μ and σ
            act with π_θ, add the transition to the replay buffer, draw a minibatch of it
            ω ← Adam step on mean (r + γ Q_ω̃(s', π_μ̃(s')) − Q_ω(s, a))²
            ĝ ← −(1/M) Σ ∇_θ π_θ(s) ∇_a Q_ω(s, π_θ(s))            at the θ that acted
            (μ, σ) ← optimizer step along ĝ
            ω̃ ← (1 − τ) ω̃ + τ ω,  μ̃ ← (1 − τ) μ̃ + τ μ           the target policy follows the mean

    ``predict``, ``evaluate_policy``, ``EvalCallback``, ``save`` and ``state_dict`` always use the mean. After ``learn`` or
    ``load``, calls of ``model.policy`` and ``model.actor`` use it too. A callback that accesses the actor's parameters
    directly finds the sample there, and loses what it writes when the mean is restored: call
    ``model.actor.optimizer.eval()`` first. Any optimizer of vadam works, and any of torch's, which then explores only by
    ``action_noise``.

    Args:
        policy: as for DDPG, e.g. "MlpPolicy". The default network is the paper's, 400 and 300 ReLU units.
        env: a Gymnasium environment with continuous actions, a VecEnv of them, or its name. All environments share a sample.
        actor_optimizer: the class of the actor's optimizer.
        actor_optimizer_kwargs: its arguments, including the learning rate. The defaults for Vadam are the paper's.
        sample_every: "step" draws new weights at every time step, as the paper does; "episode" keeps the noise ε for an
            episode (with several environments until the first episode ends), while μ and σ are still updated.
        policy_gradient: "mean" over the minibatch, as in the paper, or "sum", as in the authors' program.
        learning_rate: the learning rate κ of the critic.
        learning_starts: time steps before the first update. The policy acts from the first step: there is no random phase.
        others: arguments of DDPG, with the paper's M = 64 and τ = 0.001 as defaults.
    """

    def __init__(
        self,
        policy: str | type[TD3Policy],
        env: GymEnv | str,
        actor_optimizer: type[torch.optim.Optimizer] = Vadam,
        actor_optimizer_kwargs: dict[str, Any] | None = None,
        sample_every: Literal["step", "episode"] = "step",
        policy_gradient: Literal["mean", "sum"] = "mean",
        learning_rate: float | Schedule = 1e-3,
        *,
        learning_starts: int = 64,
        batch_size: int = 64,
        tau: float = 1e-3,
        policy_kwargs: dict[str, Any] | None = None,
        _init_setup_model: bool = True,
        **others: Any,
    ) -> None:
        self.actor_optimizer = actor_optimizer
        self.actor_optimizer_kwargs = {} if actor_optimizer_kwargs is None else actor_optimizer_kwargs
        self.sample_every, self.policy_gradient = sample_every, policy_gradient
        self._episode_seed: int | None = None  # seed of the noise of the current episode
        self._episode_ended = False
        super().__init__(
            policy,
            env,
            learning_rate,
            learning_starts=learning_starts,
            batch_size=batch_size,
            tau=tau,
            policy_kwargs={**_networks(policy_kwargs or {}), **(policy_kwargs or {})},
            _init_setup_model=_init_setup_model,
            **others,
        )

    @classmethod
    def load(cls, *args: Any, **kwargs: Any) -> ParameterNoiseDDPG:
        """Load a model as SB3 does.

        ``actor_optimizer_kwargs`` are those of the constructor. They override the values that the optimizer was saved with.
        """
        model = super().load(*args, **kwargs)
        given = kwargs.get("actor_optimizer_kwargs", {})
        for group in model.actor.optimizer.param_groups:
            group.update({name: value for name, value in given.items() if name in group})
        return model

    def _setup_model(self) -> None:
        _check_choice("sample_every", self.sample_every, ("step", "episode"))
        _check_choice("policy_gradient", self.policy_gradient, ("mean", "sum"))
        _check_optimizer(self.actor_optimizer, self.actor_optimizer_kwargs)
        super()._setup_model()
        table_3 = TABLE_3 if issubclass(self.actor_optimizer, Vadam) else {}
        arguments = {**table_3, **self.actor_optimizer_kwargs}
        if issubclass(self.actor_optimizer, VariationalOptimizer) and arguments.get("generator") is None:
            arguments["generator"] = torch.Generator().manual_seed(NoiseSource(None).seed)
        self.actor.optimizer = self.actor_optimizer(self.actor.parameters(), **arguments)
        pairs = ((self.critic, self.critic_target), (self.actor, self.actor_target))
        self._followed: list[Tensor] = [p for network, _ in pairs for p in network.parameters()]
        self._following: list[Tensor] = [p for _, target in pairs for p in target.parameters()]
        if self._sampler is None:
            return
        if not self._sampler.has_loop:
            raise ValueError(
                f"{self.actor_optimizer.__name__} with these arguments evaluates the loss itself and cannot take a policy "
                f"gradient: choose an optimizer that takes one, such as Vadam, VOGN, or VON with curvature='reparam'"
            )
        self._sampler.attach(self.actor)
        self.policy.set_training_mode(False)

    def set_random_seed(self, seed: int | None = None) -> None:
        """Set all seeds, including that of the weight samples."""
        super().set_random_seed(seed)
        exists = getattr(self, "actor", None) is not None  # False inside the constructor
        if seed is not None and exists and self._sampler is not None:
            self._generator.manual_seed(seed)
            self._episode_seed = None

    @property
    def _sampler(self) -> VariationalOptimizer | None:
        """Return the actor's optimizer if it can sample, else None."""
        optimizer = self.actor.optimizer
        return optimizer if isinstance(optimizer, VariationalOptimizer) else None

    @property
    def _generator(self) -> torch.Generator:
        """Return the generator from which the actor's optimizer draws."""
        generator: torch.Generator = self.actor.optimizer.generator  # type: ignore[attr-defined]
        return generator

    # Acting ------------------------------------------------------------------------------------------------------------------

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._episode_ended:
            self._episode_seed = None
        self._draw_sample()
        observation, _ = self.policy.obs_to_tensor(self._last_obs)  # type: ignore[arg-type]
        with torch.no_grad():  # forward() instead of a call, which would restore the mean
            scaled = self.actor.forward(observation).cpu().numpy()  # type: ignore[arg-type]
        scaled = scaled.reshape((-1, *(self.action_space.shape or ())))
        if action_noise is not None:
            scaled = np.clip(scaled + action_noise(), -1, 1)
        return self.policy.unscale_action(scaled), scaled

    def _draw_sample(self) -> None:
        """Put a sample of the weights into the actor, until the optimizer's step or a request for the mean."""
        if self._sampler is None:
            return
        self._drop_sample()
        if self.sample_every == "episode":
            if self._episode_seed is None:
                self._episode_seed = NoiseSource(self._generator).seed
            self._generator.manual_seed(self._episode_seed)
        self._sampler.train()

    def _drop_sample(self) -> None:
        if self._sampler is not None:
            self._sampler.eval()
            self._sampler.zero_grad()

    # Learning ----------------------------------------------------------------------------------------------------------------

    def learn(self, *args: Any, **kwargs: Any) -> ParameterNoiseDDPG:
        try:
            return super().learn(*args, **kwargs)
        finally:
            self._drop_sample()
            self.policy.set_training_mode(False)  # so that a call of the network uses the mean

    def _setup_learn(self, total_timesteps: int, callback: MaybeCallback = None, *args: Any, **kwargs: Any) -> Any:
        was_acting = self._last_obs
        single = callback if isinstance(callback, BaseCallback) else ConvertCallback(callback)  # type: ignore[arg-type]
        callbacks = [_EndsOfEpisodes(), *(callback if isinstance(callback, list) else [single])]
        ready = super()._setup_learn(total_timesteps, callbacks, *args, **kwargs)
        if self._last_obs is not was_acting:  # the environments were reset
            self._episode_ended = True
        return ready

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.critic.optimizer)
        losses: list[tuple[Tensor, Tensor]] = []
        for step in range(gradient_steps):
            if step > 0:
                self._draw_sample()
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)  # type: ignore[union-attr]
            losses.append((self.update_critic(batch), self._update_actor(batch)))
            self._update_targets()
        self._n_updates += len(losses)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in zip(("critic", "actor"), zip(*losses, strict=True), strict=False):
            self.logger.record(f"train/{name}_loss", torch.stack(values).mean().item())

    def update_critic(self, batch: ReplayBufferSamples) -> Tensor:
        """Take one step of the critics towards the targets of a batch, and return their loss."""
        discount = self.gamma if batch.discounts is None else batch.discounts
        with torch.no_grad():
            next_q = self.critic_target(batch.next_observations, self.actor_target(batch.next_observations))
            target = batch.rewards + (1 - batch.dones) * discount * torch.cat(next_q, dim=1).amin(1, keepdim=True)
        loss: Tensor = sum(mse_loss(q, target) for q in self.critic(batch.observations, batch.actions))  # type: ignore[assignment]
        self.critic.optimizer.zero_grad()
        loss.backward()
        self.critic.optimizer.step()
        return loss.detach()

    def _update_actor(self, batch: ReplayBufferSamples) -> Tensor:
        if self._sampler is not None:
            self._sampler.train()  # restore the sample that acted, if the mean was used in between
        self.actor.optimizer.zero_grad()
        q = self.critic.q1_forward(batch.observations, self.actor(batch.observations))
        loss = -(q.mean() if self.policy_gradient == "mean" else q.sum())
        loss.backward(inputs=[p for group in self.actor.optimizer.param_groups for p in group["params"]])
        self.actor.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def _update_targets(self) -> None:
        torch._foreach_lerp_(self._following, self._followed, self.tau)
        polyak_update(self.critic_batch_norm_stats, self.critic_batch_norm_stats_target, 1.0)
        polyak_update(self.actor_batch_norm_stats, self.actor_batch_norm_stats_target, 1.0)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_followed", "_following"]


class _EndsOfEpisodes(BaseCallback):
    """Record the ends of episodes.

    It must be the first callback: later ones may save, stop or raise before SB3 has stored an episode's last transition.
    """

    def _on_step(self) -> bool:
        self.model._episode_ended = bool(self.locals["dones"].any())  # type: ignore[attr-defined]
        return True


def _networks(given: dict[str, Any]) -> dict[str, Any]:
    """Return the paper's layer sizes, and a fused Adam for the critic."""
    adam = {} if {"optimizer_class", "optimizer_kwargs"} & set(given) else {"optimizer_kwargs": {"fused": True}}
    return {"net_arch": [400, 300], **adam}


def _check_optimizer(optimizer: Any, arguments: Any) -> None:
    if not (isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer)):
        raise TypeError(
            f"actor_optimizer={optimizer!r} is not valid: pass a class, such as vadam.Vadam or torch.optim.Adam; "
            "the critic's rate is learning_rate, the actor's is in actor_optimizer_kwargs"
        )
    closure = signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise ValueError(
            f"actor_optimizer={optimizer.__name__} is not valid: it evaluates the loss repeatedly, but the policy gradient is "
            "computed once, at the weights that acted: choose one whose step() needs no closure, such as vadam.Vadam or torch.optim.Adam"
        )
    if not isinstance(arguments, dict):
        raise TypeError(
            f"actor_optimizer_kwargs={arguments!r} is not valid: pass the optimizer's arguments by name, such as {{'lr': 1e-4}}"
        )
    if arguments.get("samples", 1) != 1:
        raise ValueError(
            f"samples={arguments['samples']!r} in actor_optimizer_kwargs is not valid: use 1, one sample acts and gives the gradient"
        )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not valid: choose one of {', '.join(map(repr, choices))}")
