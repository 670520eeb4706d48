"""Show how far the training of an estimator is."""

import sys
import time
from collections.abc import Callable

PATIENCE_SECONDS = 2.0

Progress = Callable[[float, str], None]


class Reporter:
    """Count network-steps and say how far the work is: to a function, or on stderr once it has taken two seconds."""

    def __init__(self, verbose: bool | Progress, work: float) -> None:
        self._verbose, self._work, self._done = verbose, max(1.0, work), 0.0
        self._started, self._shown = time.monotonic(), False

    def __call__(self, steps: int, label: str) -> None:
        self._done += steps
        share = min(1.0, self._done / self._work)
        if callable(self._verbose):
            self._verbose(share, label)
        elif self._verbose and (gone := time.monotonic() - self._started) > PATIENCE_SECONDS:
            left = gone * (1 - share) / max(share, 1e-9)
            sys.stderr.write(f"\r{label}: {share:4.0%}, {left:.0f} s left   ")
            self._shown = True

    def close(self) -> None:
        """End the line."""
        if self._shown:
            sys.stderr.write("\n")
