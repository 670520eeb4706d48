"""MuJoCo without its chatter: a deprecated attribute in Gymnasium's own models is no news to those who run them.

By default MuJoCo prints every warning of its compiler and appends it to ``MUJOCO_LOG.TXT`` in the working folder.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

KNOWN = ("'settotalmass' is deprecated",)


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, MuJoCo writes no log file: what it warns of becomes a Python warning, unless it is known and harmless.

    It is for this process. With a ``SubprocVecEnv``, enter it in the function that makes the environment, which its process calls.
    """
    try:
        import mujoco
    except ImportError:  # there is nothing to be quiet about
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_tell)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _tell(message: str | bytes) -> None:
    text = message.decode() if isinstance(message, bytes) else message
    if not any(known in text for known in KNOWN):
        warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2)
