"""Figures: what is remembered task by task, and what is left after pruning."""

from typing import TYPE_CHECKING

from vadam.plot.theme import panels, style
from vadam_paper.experiments.posterior.records import CONTINUAL, FRACTIONS, PRUNING, continual, pruning
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTIONS = {
    "tasks-and-weights": "Left: accuracy of each task of permuted MNIST after the last one was learned. Middle and right: LeNet-5 on "
    "Fashion-MNIST with a fraction of its weights set to zero. Dots are seeds, lines their means.",
}
METHODS = {"adam": "#7a7a7a", "vadam": "#3b82c4", "vadam-ggn": "#2a9d6f", "joint": "#c9c9c9"}
SCORES = {("vadam", "snr"): "#3b82c4", ("vadam", "magnitude"): "#e0533d", ("adam", "magnitude"): "#7a7a7a"}


def figures(results: Results) -> "dict[str, Figure]":
    with style():
        figure, axes = panels(3, width=3.3, height=3.0)
        run = results["text"]
        _remembered(axes[0], run)
        _left(axes[1], run, "accuracy")
        _left(axes[2], run, "log_likelihood")
        axes[0].legend(fontsize=6, loc="lower right")
        axes[1].legend(fontsize=7, loc="lower left")
    return {"tasks-and-weights": figure}


def _remembered(axes: "Axes", run: Recorded) -> None:
    for method, colour in METHODS.items():
        after = continual(run, method)
        if len(after):
            tasks = range(1, after.shape[1] + 1)
            axes.plot(tasks, 100 * after.T, ".", color=colour, markersize=3, alpha=0.6)
            axes.plot(tasks, 100 * after.mean(0), color=colour, label=CONTINUAL[method])
            axes.set_xticks(list(tasks))
    axes.set(title="Remembered after the last task", xlabel="task", ylabel="accuracy, %")
    axes.grid(axis="y")


def _left(axes: "Axes", run: Recorded, what: str) -> None:
    for (method, by), colour in SCORES.items():
        found = pruning(run, method, by, what) * (100 if what == "accuracy" else 1)
        if len(found):
            shown = range(len(FRACTIONS))
            axes.plot(shown, found.T, ".", color=colour, markersize=3, alpha=0.6)
            axes.plot(shown, found.mean(0), color=colour, label=PRUNING[method, by])
    axes.set_xticks(range(len(FRACTIONS)), [f"{100 * fraction:g}" for fraction in FRACTIONS])
    name = "accuracy, %" if what == "accuracy" else "log-likelihood"
    axes.set(title=f"Pruned: {name}", xlabel="weights set to zero, %", ylabel=name)
    axes.grid(axis="y")
