"""Measure the wall time and the processor time of a cell; the latter does not grow on a busy machine."""

import time
from typing import NamedTuple


class Duration(NamedTuple):
    """Wall and processor time in seconds."""

    seconds: float
    cpu_seconds: float


class Stopwatch:
    """A stopwatch that starts when created; ``before`` is the time of earlier attempts."""

    def __init__(self) -> None:
        self.before = Duration(0.0, 0.0)
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def elapsed(self) -> Duration:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Duration(round(self.before.seconds + wall, 3), round(self.before.cpu_seconds + cpu, 3))
