"""Delay Ctrl-C until a change is complete: of the weights, which autograd does not record, or of a model that is lent to a computation."""

from __future__ import annotations

import signal as signals
import threading
from _signal import SIG_DFL, SIG_IGN, getsignal, signal  # type: ignore[import-not-found]  # without conversions
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, Self, TypeVar

import torch

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
SIGNALS = tuple(int(getattr(signals, name)) for name in _NAMES if hasattr(signals, name))  # Windows has fewer
"""The signals whose handlers wait: those of interruptions, of schedulers that ask for a checkpoint, and of time limits."""

_NOT_PYTHON = (None, SIG_DFL, SIG_IGN)  # handlers that cannot be called


class _Thread(threading.local):
    is_inside = False


_thread = _Thread()
P = ParamSpec("P")
R = TypeVar("R")


def without_grad(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function without autograd, like ``torch.no_grad``, but with no moment in which Ctrl-C leaves autograd off.

    Python looks for signals after calls: behind the last line, autograd is as it was.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        records = torch.is_grad_enabled()
        try:
            torch._C._set_grad_enabled(False)
            return function(*args, **kwargs)
        finally:
            torch._C._set_grad_enabled(records)

    return call


class Uninterrupted:
    """Inside, handlers of signals wait: what was begun is finished, then they are called. Autograd is off, as in ``torch.no_grad``.

    Python runs handlers in the main thread between two instructions, so a ``KeyboardInterrupt`` could come when half of the weights
    are written, or in ``torch.no_grad`` itself, which then stays on. Other threads are never interrupted. A long computation
    calls ``let_through`` between its parts.
    """

    def __enter__(self) -> Self:
        self._outermost = not _thread.is_inside
        if not self._outermost:
            return self
        self._handlers: dict[int, Callable[..., Any]] = {}
        self._received: list[tuple[int, FrameType | None]] = []
        self._install()
        self._records = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        _thread.is_inside = True
        return self

    def let_through(self) -> None:
        """Call the handlers that wait now; what they raise ends the computation, whose clean-up is not interrupted."""
        if self._outermost:
            self._deliver()

    def __exit__(self, *_: object) -> None:
        if self._outermost:
            _thread.is_inside = False
            torch._C._set_grad_enabled(self._records)
            try:
                self._put_back()
            finally:
                if self._received:
                    self._deliver()

    def _install(self) -> None:
        try:
            for number, handler in zip(SIGNALS, map(getsignal, SIGNALS), strict=True):
                if handler not in _NOT_PYTHON:
                    self._handlers[number] = handler
                    signal(number, self._receive)
        except ValueError:  # not the main thread
            self._handlers = {}
        except BaseException:
            self._put_back()
            raise

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._received.append((number, frame))

    def _put_back(self) -> None:
        try:
            for number, handler in self._handlers.items():
                signal(number, handler)
        except BaseException:  # raised by a handler that was put back already
            for number, handler in self._handlers.items():
                signal(number, handler)
            raise

    def _deliver(self) -> None:
        """Call the handlers of all received signals, also if one of them raises."""
        while self._received:
            number, frame = self._received.pop(0)
            try:
                self._handlers[number](number, frame)
            finally:
                self._deliver()
