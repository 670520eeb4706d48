"""Record a film strip of the cheetah at the end of a trial: the positions of its limbs, seen from the side."""

from typing import Any

import numpy as np

FIRST, EVERY, FRAMES = 300, 2, 12
"""First frame, frames between recorded ones, and number of frames, in steps of 0.05 s."""


def film(model: Any, environment: Any, steps: int, seed: int) -> dict[str, Any]:
    """Run an episode with the mean weights and return its return and frames.

    The frames are [frames, limbs, (x₁, z₁, x₂, z₂)], with the limbs' radii, in metres.
    """
    observation, _ = environment.reset(seed=seed)
    total, ended, step, frames = 0.0, False, 0, []
    first = min(FIRST, steps - EVERY * FRAMES)
    while not ended:
        if 0 <= step - first < EVERY * FRAMES and (step - first) % EVERY == 0:
            frames.append(limbs_of(environment.unwrapped))
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = environment.step(action)
        total, ended, step = total + float(reward), terminated or truncated, step + 1
    distance = float(environment.unwrapped.data.qpos[0])
    radii = _capsules(environment.unwrapped.model)[1]
    environment.close()
    return {"return": total, "distance": distance, "radii": radii, "frames": np.round(frames, 3).tolist()}


def on_its_back(frames: Any) -> bool:
    """Return True if the feet are above the torso in most frames; the limbs are torso, head, and two legs of three."""
    heights = np.asarray(frames, dtype=float)[:, :, [1, 3]].mean(2)
    return bool(np.median(heights[:, 2:].mean(1) - heights[:, 0]) > 0)


def _capsules(model: Any) -> tuple[list[int], list[float]]:
    import mujoco

    numbers = [i for i in range(model.ngeom) if model.geom_type[i] == mujoco.mjtGeom.mjGEOM_CAPSULE]
    return numbers, [round(float(model.geom_size[i, 0]), 3) for i in numbers]


def limbs_of(environment: Any) -> np.ndarray:
    """Return the end points of the capsules: segments along their own z axis."""
    numbers, _ = _capsules(environment.model)
    centre = environment.data.geom_xpos[numbers]
    axis = environment.data.geom_xmat[numbers].reshape(-1, 3, 3)[:, :, 2]
    half = environment.model.geom_size[numbers, 1][:, None] * axis
    return np.concatenate([(centre - half)[:, [0, 2]], (centre + half)[:, [0, 2]]], axis=1)
