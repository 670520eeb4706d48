"""Silence known warnings of MuJoCo about Gymnasium's own models.

By default MuJoCo prints every warning of its compiler and appends it to ``MUJOCO_LOG.TXT`` in the working folder.
"""

import warnings

KNOWN = ("'settotalmass' is deprecated",)


def quiet() -> None:
    """Turn MuJoCo's warnings into Python warnings, drop known harmless ones, and write no log file.

    An existing handler stays. The setting holds for this process: with a ``SubprocVecEnv``, call it in the function that
    creates the environment.
    """
    try:
        import mujoco
    except Exception:  # MuJoCo is missing or broken: nothing to silence
        return
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn)


def _warn(message: str | bytes) -> None:
    text = message.decode() if isinstance(message, bytes) else message
    if not any(known in text for known in KNOWN):
        warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2)
