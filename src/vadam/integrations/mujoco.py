"""MuJoCo without its chatter: a deprecated attribute in Gymnasium's own models is no news to those who run them.

By default MuJoCo prints every warning of its compiler and appends it to ``MUJOCO_LOG.TXT`` in the working folder.
"""

import warnings

KNOWN = ("'settotalmass' is deprecated",)


def quiet() -> None:
    """From now on MuJoCo writes no log file: what it warns of becomes a Python warning, unless it is known and harmless.

    A handler that somebody has set stays. It is for this process: with a ``SubprocVecEnv``, call it in the function that makes the
    environment.
    """
    try:
        import mujoco
    except Exception:  # without a MuJoCo that works there is nothing to be quiet about
        return
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_tell)


def _tell(message: str | bytes) -> None:
    text = message.decode() if isinstance(message, bytes) else message
    if not any(known in text for known in KNOWN):
        warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2)
