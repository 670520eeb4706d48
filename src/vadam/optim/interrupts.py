"""Delay Ctrl-C until a change of the weights is complete."""

from __future__ import annotations

import threading
from _signal import SIGINT, SIGTERM, getsignal, signal  # type: ignore[import-not-found]  # without the conversions of the module ``signal``
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

SIGNALS = (SIGINT, SIGTERM)


class Uninterrupted:
    """Inside, handlers of signals wait: what was begun is finished, then they are called.

    Python runs handlers in the main thread between two instructions, so a ``KeyboardInterrupt`` could come when half of the weights
    are written. Other threads are never interrupted.
    """

    _inside: ClassVar[bool] = False  # in the main thread

    def __enter__(self) -> None:
        self._handlers: dict[int, Callable[..., Any]] = {}
        self._received: list[tuple[int, FrameType | None]] = []
        self._outermost = not Uninterrupted._inside and threading.get_ident() == threading.main_thread().ident
        if not self._outermost:
            return
        try:
            for number in SIGNALS:
                handler = getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal(number, self._receive)
            Uninterrupted._inside = True
        except BaseException:
            self._put_back()
            raise

    def __exit__(self, *_: object) -> None:
        if self._outermost:
            self._put_back()
            for number, frame in self._received:
                self._handlers[number](number, frame)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._received.append((number, frame))

    def _put_back(self) -> None:
        Uninterrupted._inside = False
        for number, handler in self._handlers.items():
            signal(number, handler)
