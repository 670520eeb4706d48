"""Plot one row per trial: when the car first reached the top, and how often."""

from typing import TYPE_CHECKING

from vadam.plot.theme import panels, style
from vadam_paper.experiments.mountain_car.table import NAMES
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.rl.records import trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "vadam-episode": "#e0533d",
    "vadam-step": "#8e6bbf",
    "adam-action-noise": "#3b82c4",
    "adam-correlated-noise": "#1a9850",
    "adam-plain": "#8b949e",
}
CAPTIONS = {
    "arrivals": (
        "One lane a trial, from its start to its end: the dot is the car’s first arrival at the top while it was learning, the "
        "number how often it arrived in all. A lane without a dot is a trial that never got there."
    )
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    shown = [method for method in NAMES if trials(run, method)]
    if not shown:
        return {}
    with style():
        figure, axes = panels(min(len(shown), 3), rows=-(-len(shown) // 3), width=3.3, height=2.2)
        for panel in axes[len(shown) :]:
            panel.set_visible(False)
        for panel, method in zip(axes, shown, strict=False):
            for lane, trial in enumerate(trials(run, method), start=1):
                end, first = trial["step"][-1], trial["first_arrival"]
                panel.plot([0, end], [lane, lane], color=COLOURS[method], linewidth=1, alpha=0.5)
                if first is not None:
                    panel.plot([first], [lane], "o", color=COLOURS[method], markersize=6)
                    panel.text(first, lane + 0.18, f" {trial['arrivals']}×", fontsize=8)
            lanes = len(trials(run, method))
            panel.set(title=NAMES[method], xlabel="time steps", ylim=(0.4, lanes + 0.9), yticks=range(1, lanes + 1))
        for panel in axes[::3]:
            panel.set_ylabel("trial")
    return {"arrivals": figure}
