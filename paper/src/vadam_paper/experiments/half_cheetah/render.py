"""Render the film strip with MuJoCo, offscreen, from the recorded positions of the limbs.

It runs in its own process, because OpenGL must be chosen before MuJoCo is imported, and may be missing.
"""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np

HEIGHT, WIDTH = 168, 240
SECONDS = 60


def rendered(frames: list[Any]) -> np.ndarray | None:
    """Return pictures [frames, height, width, 3], or None if MuJoCo or OpenGL is not available."""
    command = [sys.executable, "-m", __name__]
    environment = {"MUJOCO_GL": "egl"} | os.environ
    try:
        done = subprocess.run(
            command, input=json.dumps(frames).encode(), env=environment, capture_output=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode or len(done.stdout) != len(frames) * HEIGHT * WIDTH * 3:
        return None
    return np.frombuffer(done.stdout, dtype=np.uint8).reshape(len(frames), HEIGHT, WIDTH, 3)


def pose(environment: Any, limbs: np.ndarray) -> None:
    """Move the cheetah so that its limbs match the segments [limbs, (x₁, z₁, x₂, z₂)].

    Each joint angle is the rotation of a limb relative to the one above.
    """
    import mujoco

    from vadam_paper.experiments.half_cheetah.film import limbs_of

    model, data = environment.model, environment.data
    data.qpos[:] = 0
    mujoco.mj_kinematics(model, data)
    torso, _, *legs = _angles(limbs) - _angles(limbs_of(environment))
    back, front = legs[:3], legs[3:]
    data.qpos[2:] = [torso, *np.diff([torso, *back]), *np.diff([torso, *front])]
    mujoco.mj_kinematics(model, data)
    data.qpos[:2] += _centre(limbs) - _centre(limbs_of(environment))
    mujoco.mj_forward(model, data)


def _angles(limbs: np.ndarray) -> np.ndarray:
    """Return the angles of the limbs about the axis that points away from the viewer."""
    x1, z1, x2, z2 = limbs.T
    return np.arctan2(x2 - x1, z2 - z1)


def _centre(limbs: np.ndarray) -> np.ndarray:
    """Return the centre of the torso."""
    return limbs[0].reshape(2, 2).mean(0)


def _mark_ground(scene: Any, around: float) -> None:
    """Draw a stripe every metre; the camera follows, so that without them no motion is visible."""
    import mujoco

    size, upright, colour = np.array([0.05, 3, 0.001]), np.eye(3).flatten(), np.array([1, 1, 1, 0.6], dtype=np.float32)
    for metre in range(round(around) - 5, round(around) + 6):
        stripe, place = scene.geoms[scene.ngeom], np.array([metre, 0, 0])
        mujoco.mjv_initGeom(stripe, mujoco.mjtGeom.mjGEOM_BOX, size, place, upright, colour)
        scene.ngeom += 1


def main() -> None:
    import gymnasium
    import mujoco

    from vadam.integrations.mujoco import quiet

    quiet()
    environment: Any = gymnasium.make("HalfCheetah-v5").unwrapped
    renderer = mujoco.Renderer(environment.model, HEIGHT, WIDTH)
    camera = mujoco.MjvCamera()
    camera.type, camera.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, environment.model.body("torso").id
    camera.distance, camera.azimuth, camera.elevation = 2.3, 90, -8
    for limbs in json.load(sys.stdin):
        pose(environment, np.asarray(limbs, dtype=float))
        renderer.update_scene(environment.data, camera=camera)
        _mark_ground(renderer.scene, around=environment.data.qpos[0])
        sys.stdout.buffer.write(renderer.render().tobytes())


if __name__ == "__main__":
    main()
