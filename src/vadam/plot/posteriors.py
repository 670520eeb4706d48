"""Draw a posterior over the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vadam.gaussian import FullGaussian, MeanFieldGaussian, RotatedGaussian
from vadam.plot.axes import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEAN, STDDEV = "#3b82c4", "#e0533d"


def posterior(post: MeanFieldGaussian | RotatedGaussian | FullGaussian, *, ax: Axes | None = None) -> Axes:
    """Draw the median |mean| and the median standard deviation of each parameter, and their signal-to-noise ratio.

    Each parameter is a row. Where the standard deviation (round) is to the right of the mean (square), most of its weights could
    be zero. The title says which share of the precision comes from the data, where it is known.
    """
    if not hasattr(post, "summary"):
        raise TypeError(
            f"posterior needs one Gaussian, got {type(post).__name__}: of a Mixture draw each of its components by itself"
        )
    summary = post.summary()
    rows = summary.rows[::-1]
    ax = axes_or_new(ax)
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        ax.plot([row.abs_mean, row.stddev], [place, place], color="0.7", linewidth=1, zorder=0)
    ax.plot([row.abs_mean for row in rows], places, "s", color=MEAN, label="|mean|")
    ax.plot([row.stddev for row in rows], places, "o", color=STDDEV, label="standard deviation")
    ax.set_yticks(list(places), [f"{row.name}  (SNR {row.snr:.2g})" for row in rows])
    ax.set(xscale="log", xlabel="median over the weights")
    if summary.shares is not None:
        ax.set_title(
            f"{summary.shares.data:.0%} of the precision from the data, {summary.shares.prior:.0%} from the prior"
        )
    ax.legend()
    return ax
