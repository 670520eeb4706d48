"""Fig. 2c: symmetric KL over the minibatch size, and along the training."""

from typing import TYPE_CHECKING

import numpy as np

from vadam.plot.theme import COLOURS, INK, boxes, panels, style
from vadam_paper.experiments.logreg_breast_cancer.table import MEDIANS, PAPER
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"authors": "Authors’ protocol", "text": "Text’s protocol"}

CAPTIONS = {
    "minibatch-size": (
        "Left: symmetric KL to MF-Exact at the end, 20 restarts for each minibatch size; crosses and grey band are"
        " the paper’s figure. Right: the same along the training."
    ),
}


def figures(results: Results) -> "dict[str, Figure]":
    with style():
        figure, axes = panels(2, rows=len(results), width=4.2, height=2.8)
        for row, (protocol, run) in enumerate(results.items()):
            _curve(axes[2 * row], run)
            _traces(axes[2 * row + 1], run)
            axes[2 * row].set_title(f"{TITLES[protocol]}: at the end")
            axes[2 * row + 1].set_title(f"{TITLES[protocol]}: on the way (medians)")
        axes[0].legend(loc="center right", fontsize=8)
    return {"minibatch-size": figure}


def _curve(axes: "Axes", run: Recorded) -> None:
    sizes = [int(M) for M in run.config["batch_sizes"]]
    shown = [M for M in sizes if M in MEDIANS]
    for position, M in enumerate(sizes):
        boxes(axes, position, run[f"vadam-M{M}"]["kl"], COLOURS["Vadam"])
        if run.protocol == "text":
            boxes(axes, position + 0.25, run[f"vadam-larger-steps-M{M}"]["kl"], COLOURS["BBVI"], width=0.2)
            if f"vadam-batch-size-M{M}" in run:
                boxes(axes, position - 0.25, run[f"vadam-batch-size-M{M}"]["kl"], COLOURS["VOGN"], width=0.2)
    axes.plot([sizes.index(M) for M in shown], [MEDIANS[M] for M in shown], "x", color=INK, label="Figure 2c, Vadam")
    axes.axhline(np.mean(run["vogn-1"]["kl"]), color=COLOURS["VOGN"], label="VOGN-1, mean")
    axes.axhspan(*PAPER["VOGN-1"]["quartiles"], color=COLOURS["paper"], alpha=0.4, label="Figure 2c, VOGN-1 quartiles")
    axes.plot([], [], color=COLOURS["Vadam"], label="Vadam")
    if run.protocol == "text":
        axes.plot([], [], color=COLOURS["BBVI"], label="Fig. 1, steps × √N")
        axes.plot([], [], color=COLOURS["VOGN"], label="beyond the paper: batch_size = M")
        axes.legend(fontsize=8)
    axes.set_xticks(range(len(sizes)), [str(M) for M in sizes])
    axes.set(xlabel="minibatch size M", ylabel="symmetric KL to MF-Exact", yscale="log")
    axes.grid(axis="y")


def _traces(axes: "Axes", run: Recorded) -> None:
    sizes = [int(M) for M in run.config["batch_sizes"]]
    for k, M in enumerate(sizes):
        trace = run[f"vadam-M{M}"]["trace"]
        shade = 0.35 + 0.65 * k / max(1, len(sizes) - 1)
        axes.plot(trace["epoch"], trace["kl"], color=COLOURS["Vadam"], alpha=shade, label=f"Vadam, M = {M}")
    trace = run["vogn-1"]["trace"]
    axes.plot(trace["epoch"], trace["kl"], color=COLOURS["VOGN"], label="VOGN-1")
    axes.set(xlabel="epochs", ylabel="symmetric KL", xscale="log", yscale="log")
    axes.legend(fontsize=7)
    axes.grid()
