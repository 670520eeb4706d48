"""Run test episodes without exploration, in lock step, each from its own start."""

from typing import Any

import numpy as np


def episode_returns(model: Any, environments: list[Any], seeds: list[int]) -> np.ndarray:
    """Return the sum of rewards of one episode in each environment, with the mean weights."""
    observations = np.stack([env.reset(seed=seed)[0] for env, seed in zip(environments, seeds, strict=True)])
    returns, running = np.zeros(len(environments)), np.ones(len(environments), dtype=bool)
    while running.any():
        actions, _ = model.predict(observations, deterministic=True)
        for i in np.flatnonzero(running):
            observations[i], reward, terminated, truncated, _ = environments[i].step(actions[i])
            returns[i] += float(reward)
            running[i] = not (terminated or truncated)
    return returns
