"""Measure the peak memory of a part of a program, where the operating system can tell."""

import ctypes
import gc
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """The growth of the resident memory above its size at the start; Linux alone can tell."""

    def __init__(self) -> None:
        _return_unused()
        try:
            CLEAR.write_text("5")  # resets the peak to the current size
            self._before: int | None = _kilobytes("VmRSS")
        except (OSError, LookupError):
            self._before = None

    def megabytes(self) -> float | None:
        """Return the growth in megabytes so far, or None if it cannot be measured."""
        return None if self._before is None else (_kilobytes("VmHWM") - self._before) / 1000


def _kilobytes(field: str) -> int:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[field].split()[0])


def _return_unused() -> None:
    """Return freed memory to the operating system, where the C library can; otherwise later use would not show."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return
