"""A figure of the scores: dots are seeds, lines their means."""

from typing import TYPE_CHECKING

from vadam.plot.theme import panels, style
from vadam_paper.experiments.intent.records import NAMES, PARTS, seeds, values
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS = {
    "scores": "NLL and calibration error, lower is better; AUROC of queries out of scope, higher is better. Dots are seeds, lines their "
    "means.",
}
SHOWN = {"nll": "NLL", "ece": "ECE", "auroc": "AUROC out of scope"}
COLOURS = {"all": "#3b82c4", "ten": "#e0533d", "lora": "#1a9850", "full": "#8e6bbf"}


def figures(results: Results) -> "dict[str, Figure]":
    with style():
        return {"scores": _scores(results["text"])}


def _scores(run: Recorded) -> "Figure":
    figure, axes = panels(3, width=3.2, height=2.8)
    methods = [method for method in NAMES if any(seeds(run, part, method) for part in PARTS)]
    for panel, (what, title) in zip(axes, SHOWN.items(), strict=True):
        for shift, part in zip((-0.24, -0.08, 0.08, 0.24), PARTS, strict=True):
            for row, method in enumerate(methods):
                numbers = values(run, part, method, what)
                if len(numbers):
                    label = PARTS[part] if row == 0 else None
                    panel.plot(numbers, [row + shift] * len(numbers), ".", color=COLOURS[part], markersize=4, alpha=0.5)
                    panel.plot([numbers.mean()], [row + shift], "|", color=COLOURS[part], markersize=12, label=label)
        panel.set(title=title, yticks=range(len(methods)), ylim=(len(methods) - 0.5, -0.5))
        panel.set_yticklabels([NAMES[method] for method in methods] if panel is axes[0] else [])
        panel.grid(axis="x")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(PARTS), fontsize=7)
    return figure
