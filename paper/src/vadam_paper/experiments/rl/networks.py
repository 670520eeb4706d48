"""The networks of Lillicrap et al. (2016), used by the paper and the authors' program: the action enters the second layer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.td3.policies import Actor, TD3Policy
from torch import Tensor, nn

OUTPUT = 3e-3
"""Weights of the last layers are initialised from U(−0.003, 0.003)."""


class LateActionQ(nn.Module):
    """The Q-network w · relu(W₂ relu(W₁ s + b₁) + A a + b₂) + b of the concatenated (s, a)."""

    def __init__(self, states: int, actions: int, hidden: tuple[int, int]) -> None:
        super().__init__()
        self.states = states
        self.first = nn.Linear(states, hidden[0])
        self.second = nn.Linear(hidden[0], hidden[1])
        self.action = nn.Linear(actions, hidden[1], bias=False)
        self.out = nn.Linear(hidden[1], 1)

    def forward(self, state_and_action: Tensor) -> Tensor:
        state, action = state_and_action[:, : self.states].detach(), state_and_action[:, self.states :]
        q: Tensor = self.out(torch.relu(self.second(torch.relu(self.first(state))) + self.action(action)))
        return q


class LateActionCritic(ContinuousCritic):
    def __init__(self, *, net_arch: list[int], features_dim: int, **arguments: Any) -> None:
        super().__init__(net_arch=net_arch, features_dim=features_dim, **arguments)
        actions = int(np.prod(self.action_space.shape))  # type: ignore[arg-type]
        for number in range(len(self.q_networks)):
            q = LateActionQ(features_dim, actions, (net_arch[0], net_arch[1]))
            self.q_networks[number] = q
            self.add_module(f"qf{number}", q)


class LillicrapPolicy(TD3Policy):
    """A TD3 policy with these networks; ``initialisation`` is "fan-in" (Lillicrap et al.) or "authors"."""

    def __init__(self, *args: Any, initialisation: str = "fan-in", **kwargs: Any) -> None:
        self.initialise: dict[str, Callable[[Any], None]] = INITIALISATIONS[initialisation]
        super().__init__(*args, **kwargs)

    def set_training_mode(self, mode: bool) -> None:
        """Set the actor's mode, on which its optimizer samples; no layer of these networks depends on it."""
        self.actor.training = mode

    def make_actor(self, features_extractor: Any = None) -> Actor:
        actor = super().make_actor(features_extractor)
        self.initialise["actor"](actor)
        return actor

    def make_critic(self, features_extractor: Any = None) -> ContinuousCritic:
        arguments = self._update_features_extractor(self.critic_kwargs, features_extractor)
        critic = LateActionCritic(**arguments)
        self.initialise["critic"](critic)
        return critic.to(self.device)


def _fan_in_actor(actor: Actor) -> None:
    """Initialise the last layer as Lillicrap et al. do.

    For the other layers torch's default U(−1/√n, 1/√n) for n inputs is the same.
    """
    _start(OUTPUT, *[module for module in actor.modules() if isinstance(module, nn.Linear)][-1].parameters())


def _fan_in_critic(critic: LateActionCritic) -> None:
    """Initialise the critic as Lillicrap et al. do.

    The inputs of the second layer are the first layer's outputs and the action.
    """
    for q in critic.q_networks:
        assert isinstance(q, LateActionQ)
        inputs = q.second.in_features + q.action.in_features
        _start(inputs**-0.5, *q.second.parameters(), *q.action.parameters())
        _start(OUTPUT, *q.out.parameters())


@torch.no_grad()
def _start(bound: float, *parameters: Tensor) -> None:
    for parameter in parameters:
        parameter.uniform_(-bound, bound)


@torch.no_grad()
def _authors_actor(actor: Actor) -> None:
    """Initialise hidden weights from N(0, 0.3²) and every bias with 0.1."""
    *hidden, last = [module for module in actor.modules() if isinstance(module, nn.Linear)]
    for layer in hidden:
        layer.weight.normal_(0, 0.3)
        layer.bias.fill_(0.1)
    last.weight.uniform_(-OUTPUT, OUTPUT)
    last.bias.fill_(0.1)


@torch.no_grad()
def _authors_critic(critic: LateActionCritic) -> None:
    """Initialise weights from a normal distribution of deviation 0.02, truncated at two deviations; biases are zero."""
    for q in critic.q_networks:
        assert isinstance(q, LateActionQ)
        for layer in (q.first, q.second, q.action):
            nn.init.trunc_normal_(layer.weight, std=0.02, a=-0.04, b=0.04)
            if layer.bias is not None:
                layer.bias.zero_()
        q.out.weight.uniform_(-OUTPUT, OUTPUT)
        q.out.bias.zero_()


INITIALISATIONS: dict[str, dict[str, Callable[[Any], None]]] = {
    "fan-in": {"actor": _fan_in_actor, "critic": _fan_in_critic},
    "authors": {"actor": _authors_actor, "critic": _authors_critic},
}
