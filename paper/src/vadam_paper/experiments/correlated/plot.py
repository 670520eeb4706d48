"""Plot the distance to the exact full Gaussian, the toy's ellipses, and correlations beside FullVON's."""

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.plot.theme import COLOURS, INK, panels, style
from vadam_paper.experiments.correlated.records import NAMES, SET_NAMES, best
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EVON = "#0f8b8d"
CAPTIONS = {
    "kl": (
        "KL(q‖exact full Gaussian) of each method, one dot a seed. The line is the nearest diagonal Gaussian, which no diagonal "
        "method can pass. Right: the toy's posteriors, one standard deviation."
    ),
    "correlations": (
        "Correlations of the 49 weights of a small network: FullVON, EVON, and one against the other for pairs of weights of one tensor. "
        "Lines separate the tensors; EVON has none between them."
    ),
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    with style():
        return {"kl": _kl(run), "correlations": _correlations(run)}


def _kl(run: Recorded) -> "Figure":
    figure, axes = panels(4, width=2.7, height=2.9)
    for panel, (name, label) in zip(axes, SET_NAMES.items(), strict=False):
        for lane, method in enumerate(reversed(NAMES)):
            kl = best(run, name, method, "kl")
            colour = EVON if method == "evon" else COLOURS["paper"]
            panel.plot(kl, [lane] * len(kl), "o", color=colour, markersize=4)
        bound = run[f"logistic.{name}.exact"]["nearest_diagonal_kl"]
        panel.axvline(bound, color=COLOURS["MF-Exact"], linewidth=1.2)
        labels = list(reversed(NAMES.values())) if panel is axes[0] else []
        panel.set(xscale="log", title=label, xlabel="KL, nats", yticks=range(len(NAMES)), ylim=(-0.6, len(NAMES) - 0.4))
        panel.set_yticklabels(labels or [""] * len(NAMES))
        panel.grid(axis="x")
    exact = run["logistic.toy.exact"]
    shapes = {
        "exact, full": (exact, INK),
        "EVON": (run["logistic.toy.evon"], EVON),
        "exact, diagonal": (exact["diagonal"], COLOURS["MF-Exact"]),
        "IVON": (run["logistic.toy.ivon"], COLOURS["paper"]),
    }
    for label, (found, colour) in shapes.items():
        _ellipse(axes[3], found, colour, label)
    axes[3].set(title="toy", xlabel="θ₁", ylabel="θ₂")
    axes[3].legend(fontsize=7, loc="upper left")
    return figure


def _ellipse(axes: "Axes", found: dict[str, Any], colour: str, label: str) -> None:
    angle = np.linspace(0, 2 * np.pi, 200)
    root = np.linalg.cholesky(np.asarray(found["covariance"]))
    x, y = np.asarray(found["mean"])[:, None] + root @ np.stack([np.cos(angle), np.sin(angle)])
    axes.plot(x, y, color=colour, label=label, linewidth=1.3)


def _correlations(run: Recorded) -> "Figure":
    figure, (left, middle, right) = panels(3, width=3.4, height=3.1)
    full, evon = (np.asarray(run[f"network.{name}"]["correlation"]) for name in ("full", "evon"))
    sizes = run["network.full"]["sizes"]
    for panel, matrix, title in ((left, full, "FullVON"), (middle, evon, "EVON")):
        shown = panel.imshow(matrix - np.eye(len(matrix)), cmap="RdBu_r", vmin=-1, vmax=1)
        for edge in list(accumulate(sizes))[:-1]:
            panel.axhline(edge - 0.5, color=INK, linewidth=0.5)
            panel.axvline(edge - 0.5, color=INK, linewidth=0.5)
        panel.set(title=title, xticks=[], yticks=[])
    figure.colorbar(shown, ax=middle, shrink=0.8)
    which = np.repeat(np.arange(len(sizes)), sizes)
    inside = np.triu(which[:, None] == which[None, :], 1)
    right.plot([-1, 1], [-1, 1], color=COLOURS["paper"], linewidth=1)
    right.plot(full[inside], evon[inside], ".", color=EVON, markersize=4)
    right.set(title="Pairs in one tensor", xlabel="FullVON", ylabel="EVON", xlim=(-1, 1), ylim=(-1, 1))
    right.grid()
    return figure
