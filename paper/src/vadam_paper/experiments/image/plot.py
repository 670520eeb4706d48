"""Plot reliability diagrams (accuracy against confidence) and a summary of the scores."""

from typing import TYPE_CHECKING

import numpy as np

from vadam.plot.theme import INK, panels, style
from vadam_paper.experiments.image.records import NAMES, NORMS, found, values
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"group": "#e0533d", "batch": "#3b82c4"}
FEWEST = 10
"""Minimum number of predictions in an interval that is shown."""
CAPTIONS = {
    "reliability": (
        "Share of right predictions against their mean confidence, all seeds together, in tenths of confidence with ten predictions or "
        "more; areas of dots grow with their number. A calibrated method lies on the diagonal."
    ),
    "summary": "Log-loss of test images (the negative log-likelihood) and calibration error, lower is better; detection of "
    "out-of-distribution inputs, higher is better. Dots are seeds, lines their means.",
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    with style():
        return {"reliability": _reliability(run), "summary": _summary(run)}


def _reliability(run: Recorded) -> "Figure":
    methods = [m for m in NAMES if any(method == m for _, method in found(run))]
    columns = min(4, len(methods))
    figure, axes = panels(columns, rows=-(-len(methods) // columns), width=2.5, height=2.5)
    for panel, method in zip(axes, methods, strict=False):
        panel.plot([0, 1], [0, 1], color=INK, linewidth=0.8, alpha=0.5)
        for norm, name in NORMS.items():
            if (norm, method) in found(run):
                _dots(panel, run, norm, method, name)
        panel.set(title=NAMES[method], xlim=(0, 1.06), ylim=(0, 1.06), xlabel="confidence")
        panel.title.set_fontsize(8.5)
        panel.grid()
    for panel in axes[len(methods) :]:
        panel.set_visible(False)
    axes[0].set_ylabel("share right")
    axes[0].legend(fontsize=7, loc="upper left")
    return figure


def _dots(axes: "Axes", run: Recorded, norm: str, method: str, label: str) -> None:
    bins = [seed["reliability"] for seed in run[f"{norm}-{method}"]["seeds"]]
    count, confidence, right = (np.sum([b[what] for b in bins], axis=0) for what in ("count", "confidence", "right"))
    shown = count >= FEWEST
    x, y = confidence[shown] / count[shown], right[shown] / count[shown]
    axes.plot(x, y, color=COLOURS[norm], linewidth=1, alpha=0.8, label=label)
    axes.scatter(x, y, s=8 + 120 * count[shown] / count.sum(), color=COLOURS[norm], alpha=0.7, linewidth=0)


def _summary(run: Recorded) -> "Figure":
    shown = {"log_likelihood": "Log-loss", "ece": "ECE", "auroc": "AUROC of OOD inputs"}
    figure, axes = panels(3, width=3.2, height=3.0)
    methods = [m for m in NAMES if any(method == m for _, method in found(run))]
    for panel, (what, title) in zip(axes, shown.items(), strict=True):
        for shift, norm in ((-0.13, "group"), (0.13, "batch")):
            for row, method in enumerate(methods):
                if (norm, method) not in found(run):
                    continue
                numbers = abs(values(run, norm, method, what))
                y = row + shift
                panel.plot(numbers, [y] * len(numbers), ".", color=COLOURS[norm], markersize=4, alpha=0.5)
                label = NORMS[norm] if method == methods[0] else None
                panel.plot([numbers.mean()], [y], "|", color=COLOURS[norm], markersize=12, label=label)
        if what != "auroc":
            _logarithmic(panel)
        panel.set(title=title, yticks=range(len(methods)), ylim=(len(methods) - 0.5, -0.5))
        panel.set_yticklabels([NAMES[m] for m in methods] if panel is axes[0] else [])
        panel.grid(axis="x")
    axes[2].legend(fontsize=7, loc="lower left")
    return figure


def _logarithmic(axes: "Axes") -> None:
    """Use a logarithmic axis with few, plain numbers."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
