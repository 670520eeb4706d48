"""The axes that a figure is drawn into."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_or_new(ax: "Axes | None") -> "Axes":
    """Return the given axes, or those of a new figure of ``matplotlib.pyplot``."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Figures need matplotlib: pip install "vadam[plot]".') from error
    return plt.subplots()[1]


def as_array(values: Any) -> Any:
    """Return a tensor as an array on the CPU, in double precision, without its gradient."""
    return values.detach().double().cpu().numpy() if isinstance(values, Tensor) else values
