"""Fig. 3 left: one panel for each minibatch size and number of samples, with bands over the seeds."""

from typing import TYPE_CHECKING

from vadam.plot.theme import COLOURS, panels, style
from vadam_paper.experiments.australian.table import NAMES, PAPER, settings
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN_BY_THE_PAPER = ((1, 1), (1, 16), (128, 16))

CAPTIONS = {
    "curves": (
        "Test log-loss along the training: means over the seeds, bands that hold 80 % of them. Crosses: the "
        "histories that the authors ship, one run each."
    ),
    "grid": "The whole grid of minibatch sizes M and samples S of the authors’ program.",
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results.get("authors") or results["text"]
    text = results.get("text")
    shown = [setting for setting in SHOWN_BY_THE_PAPER if setting in settings(run)]
    found = {}
    with style():
        figure, axes = panels(len(shown), width=3.3, height=2.9)
        for panel, (M, S) in zip(axes, shown, strict=True):
            _draw(panel, run, M, S, text)
        axes[0].set_ylabel("test log-loss (bits, joint)")
        axes[0].legend(fontsize=7, loc="upper right")
        found["curves"] = figure
        columns = len(run.config["batch_sizes"])
        figure, axes = panels(columns, rows=len(run.config["samples"]), width=2.5, height=2.2)
        for panel, (M, S) in zip(axes, settings(run), strict=True):
            _draw(panel, run, M, S, None)
        found["grid"] = figure
    return found


def _draw(axes: "Axes", run: Recorded, M: int, S: int, text: Recorded | None) -> None:
    for method, name in NAMES.items():
        cell = f"{method}-M{M}-S{S}"
        if cell not in run:
            continue
        curve, colour = run[cell]["curve"], COLOURS[name]
        axes.plot(curve["step"], curve["mean"], color=colour, label=name)
        axes.fill_between(curve["step"], curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)
        for step, key in ((500, "at_500"), (4_750, "end")):
            if cell in PAPER[key]:
                axes.plot([step], [min(PAPER[key][cell], 1.98)], "x", color=colour, markersize=6)
    if text is not None and f"vogn-M{M}-S{S}" in text:
        curve = text[f"vogn-M{M}-S{S}"]["curve"]
        axes.plot(curve["step"], curve["mean"], "--", color=COLOURS["VOGN"], linewidth=1, label="VOGN, text’s γ = 0.9")
    axes.plot([], [], "x", color=COLOURS["paper"], label="shipped history")
    axes.set(title=f"M = {M}, S = {S}", xlabel="iteration", ylim=(0.5, 2), xlim=(0, 5_000))
    axes.grid()
