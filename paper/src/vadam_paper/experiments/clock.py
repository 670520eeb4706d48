"""How long a cell took: on the wall, and of the processor, which a busy machine does not stretch."""

import time
from typing import NamedTuple


class Took(NamedTuple):
    seconds: float
    cpu_seconds: float


class Clock:
    """Runs from its making on; ``before`` is what earlier attempts took."""

    def __init__(self) -> None:
        self.before = Took(0.0, 0.0)
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def took(self) -> Took:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Took(round(self.before.seconds + wall, 3), round(self.before.cpu_seconds + cpu, 3))
