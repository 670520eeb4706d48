"""How long a cell took: on the wall, and of the processor, which a busy machine does not stretch."""

import time
from typing import NamedTuple


class Took(NamedTuple):
    seconds: float
    cpu_seconds: float


class Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def took(self) -> Took:
        return Took(round(time.perf_counter() - self._wall, 3), round(time.process_time() - self._cpu, 3))
