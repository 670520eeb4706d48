"""Plot the time of a step of every method, relative to Adam."""

from typing import TYPE_CHECKING

from vadam.plot.theme import panels, style
from vadam_paper.experiments.cost.records import ratio, recorded
from vadam_paper.experiments.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS = {
    "ratios": "Processor time of a training step against that of Adam: medians over rounds, with their 95 % intervals."
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    names = recorded(run)
    with style():
        figure, (panel,) = panels(1, width=6.0, height=0.5 + 0.35 * len(names))
        for lane, method in enumerate(reversed(names)):
            found = ratio(run, method, "adam")
            panel.barh(
                lane,
                found.estimate,
                color="#8b949e" if method.startswith(("adam", "layers")) else "#e0533d",
                height=0.6,
            )
            panel.plot([found.low, found.high], [lane, lane], color="black", linewidth=1)
            panel.text(found.high + 0.03, lane, f"{found.estimate:.2f}", va="center", fontsize=8)
        panel.set(yticks=range(len(names)), yticklabels=list(reversed(names.values())), xlabel="times Adam’s step")
    return {"ratios": figure}
