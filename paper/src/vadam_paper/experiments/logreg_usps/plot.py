"""Fig. 2b: three box plots for each protocol, with the figure's boxes beside them."""

from typing import TYPE_CHECKING

from vadam.plot.theme import COLOURS, boxes, panels, style
from vadam_paper.experiments.logreg_usps.table import METHODS, METRICS, PAPER
from vadam_paper.experiments.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = {"authors": "authors’ protocol", "text": "text’s protocol"}

CAPTIONS = {"boxes": "Box plots over 20 random halves of the data; grey bars are the quartiles of the paper’s figure."}


def figures(results: Results) -> "dict[str, Figure]":
    with style():
        figure, axes = panels(3, rows=len(results), width=3.1, height=2.5)
        for row, (protocol, run) in enumerate(results.items()):
            for column, (metric, (label, _)) in enumerate(METRICS.items()):
                panel = axes[3 * row + column]
                panel.set_title(f"{label}, {ROWS[protocol]}")
                for position, (name, cell) in enumerate(METHODS.items()):
                    _paper_box(panel, position - 0.3, PAPER[name][metric])
                    boxes(panel, position + 0.1, run[cell][metric], COLOURS[name.removesuffix("-1")])
                panel.set_xticks(range(3), list(METHODS))
                panel.grid(axis="y")
        axes[2].plot([], [], color=COLOURS["paper"], linewidth=5, alpha=0.6, label="Figure 2b, quartiles")
        axes[2].legend(loc="upper left", fontsize=8)
    return {"boxes": figure}


def _paper_box(axes: "Axes", position: float, box: list[float]) -> None:
    low, median, high = box
    axes.plot([position, position], [low, high], color=COLOURS["paper"], linewidth=6, alpha=0.6, solid_capstyle="butt")
    axes.plot([position - 0.07, position + 0.07], [median, median], color=COLOURS["paper"], linewidth=2)
