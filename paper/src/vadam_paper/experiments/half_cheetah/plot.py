"""Fig. 3 right: test returns, the curves that the authors ship, and a film strip."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.plot.theme import INK, panels, style
from vadam_paper.experiments.half_cheetah.render import rendered
from vadam_paper.experiments.half_cheetah.table import PAPER
from vadam_paper.experiments.milestones import parse_key
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.rl.records import COLOURS, NAMES, curve, trials
from vadam_paper.experiments.rl.verdicts import main

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = "thousand time steps"
CAPTIONS = {
    "curves": (
        "Left: test return with the mean weights, mean over trials (their number in brackets), bands of one standard error. "
        "Middle and right: the two runs that the authors ship, on HalfCheetah-v1."
    ),
    "spread": "How far the sampled weights spread: the mean standard deviation over all weights of the policy.",
    "film": "The cheetah of the trial with the largest return, whichever its method, with its mean weights: one frame every 0.1 "
    "seconds, rendered by MuJoCo, forward is to the right, stripes on the ground are a metre apart.",
}


def figures(results: Results) -> "dict[str, Figure]":
    run = main(results)
    if not run.cells:
        return {}
    explored = any("sigma" in trial for method in NAMES for trial in trials(run, method))
    with style():
        spread = {"spread": _spread(run)} if explored else {}
        return {"curves": _curves(run), **spread, "film": _film(run)}


def _curves(run: Recorded) -> "Figure":
    figure, (ours, first, second) = panels(3, width=3.5, height=3.1)
    for method in NAMES:
        found = curve(run, method)
        if found is not None:
            _draw(ours, *found, method)
    for axes, shipped in ((first, PAPER["runs"][0]), (second, PAPER["runs"][1])):
        for method in NAMES:
            line = shipped[method]
            _draw(axes, np.asarray(PAPER["step"]), np.asarray(line["mean"]), np.asarray(line["se"]), method)
    ours.set(title="Here", xlabel=STEPS, ylabel="test return")
    first.set(title="Authors, first run", xlabel=STEPS)
    second.set(title="Authors, second run", xlabel=STEPS)
    end = max(ours.get_xlim()[1], 100)
    for axes in (ours, first, second):
        axes.set_xlim(0, end)
        axes.grid()
    _same_height((ours, first, second), end)
    labels = [f"{name} ({len(trials(run, method))})" for method, name in NAMES.items()]
    figure.legend(second.lines, labels, fontsize=7, loc="outside upper center", ncols=len(labels))
    return figure


def _draw(axes: "Axes", step: np.ndarray, mean: np.ndarray, error: np.ndarray, method: str) -> None:
    step = step / 1000
    axes.plot(step, mean, color=COLOURS[method])
    axes.fill_between(step, mean - error, mean + error, color=COLOURS[method], alpha=0.18, linewidth=0)


def _same_height(panels: "tuple[Axes, ...]", end: float) -> None:
    """Give all panels the same scale, fitted to the visible part."""
    seen = [
        y
        for axes in panels
        for line in axes.lines
        for x, y in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
        if x <= end
    ]
    low, high = min(seen, default=0.0), max(seen, default=1.0)
    margin = 0.12 * (high - low) + 1.0
    for axes in panels:
        axes.set_ylim(low - margin, high + margin)


def _spread(run: Recorded) -> "Figure":
    figure, (axes,) = panels(1, width=4.2, height=2.8)
    for method, name in NAMES.items():
        for number, trial in enumerate(t for t in trials(run, method) if "sigma" in t):
            label = name if number == 0 else None
            axes.plot(np.asarray(trial["step"]) / 1000, trial["sigma"], color=COLOURS[method], linewidth=1, label=label)
    axes.set(xlabel=STEPS, ylabel="mean σ")
    axes.yaxis.set_major_formatter("{x:.4f}")
    axes.legend(fontsize=7)
    axes.grid()
    return figure


def _film(run: Recorded) -> "Figure":
    key = max(run.cells, key=lambda key: run[key]["film"]["return"])
    best: dict[str, Any] = run[key]["film"]
    frames = np.asarray(best["frames"], dtype=float)
    pictures = rendered(best["frames"])
    figure, axes = panels(6, rows=-(-len(frames) // 6), width=1.75, height=1.35)
    for number, (panel, limbs) in enumerate(zip(axes, frames, strict=False)):
        if pictures is None:
            _draw_cheetah(panel, limbs, best["radii"])
        else:
            panel.imshow(pictures[number])
        panel.set(xticks=[], yticks=[])
        panel.set_title(f"{0.1 * number:.1f} s", fontsize=7)
        for side in panel.spines.values():
            side.set_visible(False)
    for panel in axes[len(frames) :]:
        panel.set_visible(False)
    method, number, end = parse_key(key)
    figure.suptitle(f"{NAMES[method]}, trial {number}, after {end:,} steps: return {best['return']:.0f}", fontsize=9)
    return figure


def _draw_cheetah(axes: "Axes", limbs: np.ndarray, radii: list[float]) -> None:
    """Draw the cheetah without a renderer, as capsules seen from the side.

    The order is torso, head, hind leg, fore leg.
    """
    from matplotlib.patches import Polygon

    centre = float(limbs[0, [0, 2]].mean())
    axes.axhline(0, color=INK, linewidth=0.8)
    for post in np.arange(np.floor(centre) - 2, centre + 2):
        axes.plot([post, post], [0, -0.06], color=INK, linewidth=0.8)
    axes.set(xlim=(centre - 1.2, centre + 1.2), ylim=(-0.12, 1.4), aspect="equal")

    colours = ["#c98a1b"] * 2 + ["#3b82c4"] * 3 + ["#e0533d"] * 3
    for (x1, z1, x2, z2), radius, colour in zip(limbs, radii, colours, strict=True):
        angle = np.arctan2(z2 - z1, x2 - x1) + np.linspace(np.pi / 2, 3 * np.pi / 2, 16)
        first = np.stack([x1 + radius * np.cos(angle), z1 + radius * np.sin(angle)], axis=1)
        second = np.stack([x2 - radius * np.cos(angle), z2 - radius * np.sin(angle)], axis=1)
        axes.add_patch(Polygon(np.concatenate([first, second]), closed=True, color=colour, alpha=0.9, linewidth=0))
