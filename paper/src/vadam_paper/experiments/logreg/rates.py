"""Learning rates at iterations t = 1, 2, ... (paper App. I, eq. lr_decay)."""

from torch import Tensor


def decayed(initial: float, t: Tensor) -> Tensor:
    """Return α₀ / (1 + t^0.55); the paper's β_t = 1 − (1 − β₀)/(1 + t^0.55) is 1 minus this value at 1 − β₀."""
    return initial / (1 + t**0.55)


def constant(value: float, t: Tensor) -> Tensor:
    return value + 0 * t
