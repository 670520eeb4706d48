"""Fig. 2a: ellipses of one standard deviation over the true posterior."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.plot.theme import COLOURS, INK, panels, style
from vadam_paper.experiments.logreg_toy.table import PAPER
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELLS = {"Vadam": ("vadam", "Vadam"), "VOGN-1": ("vogn-1", "VOGN")}
TITLES = {"authors": "Authors’ protocol", "text": "Text’s protocol"}

CAPTIONS = {
    "ellipses": (
        "Ellipses of one standard deviation over contours of the true posterior that hold 90, 50 and 10 % of its "
        "mass. Dotted: the ellipses of the paper’s figure."
    ),
}


def figures(results: Results) -> "dict[str, Figure]":
    with style():
        figure, axes = panels(len(results), width=4.4, height=3.5)
        for panel, (protocol, run) in zip(axes, results.items(), strict=True):
            panel.set_title(TITLES[protocol])
            _draw(panel, run)
        legend = axes[0].legend(loc="upper left", fontsize=8)
        for line in legend.get_lines():
            line.set(linewidth=2, alpha=1)
    return {"ellipses": figure}


def _draw(axes: "Axes", run: Recorded) -> None:
    exact = run["mf-exact"]
    truth = exact["true_posterior"]
    (x0, x1), (y0, y1) = truth["ranges"]
    density = np.asarray(truth["relative_density"])
    x, y = np.linspace(x0, x1, len(density)), np.linspace(y0, y1, len(density))
    axes.contourf(x, y, density.T, levels=[*truth["levels"], 1.01], colors=["#8b949e30", "#8b949e60", "#8b949ea0"])
    axes.contour(x, y, density.T, levels=truth["levels"], colors=INK, linewidths=0.5, alpha=0.6)
    _ellipse(axes, exact, COLOURS["MF-Exact"], label="MF-Exact", linewidth=2, linestyle="-.")
    for name, (cell, colour) in CELLS.items():
        means, stddevs = run[cell]["mean"], run[cell]["stddev"]
        for k, (mean, stddev) in enumerate(zip(means, stddevs, strict=True)):
            label = f"{name}, {len(means)} runs" if k == 0 else None
            _ellipse(axes, {"mean": mean, "stddev": stddev}, COLOURS[colour], label=label, linewidth=0.6, alpha=0.5)
        label = "the paper’s figure" if name == "VOGN-1" else None
        _ellipse(axes, PAPER[name], INK, linewidth=1.2, linestyle=":", label=label)
    axes.set(xlim=(0, 21), ylim=(0, 12), xlabel="θ₁", ylabel="θ₂")


def _ellipse(axes: "Axes", q: dict[str, Any], colour: str, **how: Any) -> None:
    angle = np.linspace(0, 2 * np.pi, 60)
    (m1, m2), (s1, s2) = q["mean"], q["stddev"]
    axes.plot(m1 + s1 * np.cos(angle), m2 + s2 * np.sin(angle), color=colour, **how)
    axes.plot([m1], [m2], ".", color=colour, markersize=3, alpha=how.get("alpha"))
