"""App. M's figure: the test loss after each epoch, with the training loss beside it."""

from typing import TYPE_CHECKING

import numpy as np

from vadam.plot.theme import panels, style
from vadam_paper.experiments.char_lm.records import NAMES, runs
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "sgd": "#8b949e",
    "adagrad": "#c98a1b",
    "adam": "#1a9850",
    "vadagrad": "#3b82c4",
    "vadagrad-total": "#7fb2dd",
    "vadam": "#e0533d",
    "ivon": "#8e6bbf",
    "vogn": "#2aa198",
}
CAPTIONS = {
    "curves": (
        "Loss in nats per character after each epoch: on the test part, with the mean weights, and on the training part, as it was met "
        "during the epoch (with sampled weights, where a method samples). Means over seeds, thin lines for single ones. The axis ends "
        "above the largest loss of the second epoch and later: what is higher in the first, as SGD’s is, is cut off."
    )
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    with style():
        figure, (test, train) = panels(2, width=4.2, height=3.2)
        for axes, what, title in ((test, "test", "Test"), (train, "train", "Training")):
            _draw(axes, run, what)
            axes.set(title=title, xlabel="epoch")
            axes.locator_params(axis="x", integer=True)
            axes.grid()
        test.set_ylabel("nats per character")
        figure.legend(*test.get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=4)
        low = min(test.get_ylim()[0], train.get_ylim()[0])
        high = max(_shown_at_most(run, what) for what in ("test", "train"))
        for axes in (test, train):
            axes.set_ylim(low, high)
    return {"curves": figure}


def _draw(axes: "Axes", run: Recorded, what: str) -> None:
    for method, name in NAMES.items():
        found = runs(run, method)
        if not found:
            continue
        length = min(r["epochs"] for r in found)
        curves = np.asarray([r[what][:length] for r in found], dtype=float)
        epoch = np.arange(1, length + 1)
        axes.plot(epoch, curves.mean(0), color=COLOURS[method], label=f"{name} ({len(found)})", linewidth=1.6)
        for curve in curves if len(curves) > 1 else ():
            axes.plot(epoch, curve, color=COLOURS[method], linewidth=0.6, alpha=0.5)


def _shown_at_most(run: Recorded, what: str) -> float:
    """Return the upper end of the axis, above the losses after the first epoch, which would flatten the rest."""
    later = [x for method in NAMES for r in runs(run, method) for x in r[what][1:] or r[what] if x is not None]
    return 1.05 * float(np.max(later)) if later else 5.0
