"""Processes that are forked from one which has imported everything: a new attempt costs a millisecond, not seconds.

Autograd cannot be used in a child once its parent has used it. So whoever forks does not train: it lets a child do it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


def start(act: Callable[[], object], log: Path | None = None) -> int:
    """Fork a process that does ``act`` and return its id; a traceback goes to the log and the exit code is 1."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        _do(act, log)
    return child


def _do(act: Callable[[], object], log: Path | None) -> NoReturn:
    code = 1
    try:
        if log is not None:
            with log.open("ab") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
        act()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(child: int, seconds: float = 120.0) -> int:
    """Wait for a process and return its exit code, −n for signal n; kill it if it takes longer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"a process hung for {seconds:g} s")


def kill_after(child: int, seconds: float) -> bool:
    """Send SIGKILL after a while; return True if the process was still at work."""
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
        raise AssertionError(f"a process ended with exit code {os.waitstatus_to_exitcode(status)} before it was killed")
    return os.WIFSIGNALED(status)


def end(child: int) -> None:
    """Kill a process that may have ended already."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def call(function: Callable[..., Any], *arguments: Any, folder: Path, seconds: float = 120.0) -> Any:
    """Return what the function returns in a process of its own."""
    place, log = folder / f"answer-{time.monotonic_ns()}", folder / "log.txt"

    def act() -> None:
        place.write_bytes(pickle.dumps(function(*arguments)))

    code = finish(start(act, log), seconds)
    if code:
        raise AssertionError(f"{function.__qualname__} ended with exit code {code}: {tail(log)}")
    answer = pickle.loads(place.read_bytes())
    place.unlink()
    return answer


def tail(log: Path, length: int = 1500) -> str:
    return log.read_text(errors="replace")[-length:] if log.exists() else ""
