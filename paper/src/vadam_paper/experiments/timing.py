"""How long a cell took: on the wall, and of the processor, which a busy machine does not stretch."""

import time
from typing import NamedTuple


class Duration(NamedTuple):
    seconds: float
    cpu_seconds: float


class Stopwatch:
    """Runs from its making on; ``before`` is what earlier attempts took."""

    def __init__(self) -> None:
        self.before = Duration(0.0, 0.0)
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def elapsed(self) -> Duration:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Duration(round(self.before.seconds + wall, 3), round(self.before.cpu_seconds + cpu, 3))
