"""Figures: reliability, selective prediction, entropies of OOD images, NLL under shift, NLL against draws."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vadam.plot.theme import INK, panels, style
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.vision.records import (
    FOREIGN,
    NAMES,
    SETS,
    draws_curves,
    epoch_curves,
    member_curves,
    methods,
    seeds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "adamw": "#6e7781",
    "adamw-scaled": "#9aa4ae",
    "sgd": "#b8bfc6",
    "vadam": "#e0533d",
    "vadam-paper": "#f2a093",
    "vogn": "#3b82c4",
    "ivon": "#8e6bbf",
    "evon": "#5b3f8c",
    "ivon-opt": "#c3aee0",
    "mc-dropout": "#c98a1b",
    "laplace": "#1a9850",
    "swag": "#74c476",
    "deep-ensemble": "#161b22",
    "mixture": "#d6336c",
}
CAPTIONS = {
    "reliability": "Share of right predictions minus their confidence, against the confidence, first seed: a calibrated method lies on "
    "zero, an overconfident one below.",
    "risk": "Error of the images that are answered when those with the largest entropy are not, first seed. Lower is better.",
    "foreign": "Entropy of the predictions for test images (grey) and for OOD images (coloured), first seed, in nats.",
    "shift": "NLL of turned and of noisy test images, means over seeds.",
    "more": "NLL of test images of Fashion-MNIST against the number of draws of the weights (first seed, first test images), of "
    "networks or posteriors that are averaged, and of training epochs (first seed).",
}
OF_FOREIGN = ("adamw", "vadam", "ivon", "mc-dropout", "deep-ensemble")


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    with style():
        return {
            "reliability": _by_set(run, _reliability, "confidence", "right − confidence"),
            "risk": _by_set(run, _risk, "share of images answered", "error, %"),
            "foreign": _foreign(run),
            "shift": _shift(run),
            "more": _more(run),
        }


def _by_set(run: Recorded, draw: Any, x: str, y: str) -> "Figure":
    figure, axes = panels(2, width=4.2, height=3.2)
    for panel, (name, title) in zip(axes, SETS.items(), strict=True):
        for method in methods(run, name):
            draw(panel, run, name, method)
        panel.set(title=title, xlabel=x)
        panel.grid()
    axes[0].set_ylabel(y)
    _legend_below(figure, axes[0])
    return figure


def _legend(axes: "Axes") -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=6.5)


def _legend_below(figure: "Figure", axes: "Axes") -> None:
    """Name the methods below the panels: they are too many to stand in one."""
    if axes.get_legend_handles_labels()[0]:
        figure.legend(*axes.get_legend_handles_labels(), fontsize=6.5, loc="outside lower center", ncols=5)


def _reliability(axes: "Axes", run: Recorded, name: str, method: str) -> None:
    bins = seeds(run, name, method)[0]["reliability"]
    shown = np.asarray(bins["count"]) >= 20
    confidence, right = (np.asarray(bins[what])[shown] for what in ("confidence", "right"))
    axes.plot(
        confidence, right - confidence, ".-", color=COLOURS[method], label=NAMES[method], linewidth=1, markersize=4
    )
    axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)


def _risk(axes: "Axes", run: Recorded, name: str, method: str) -> None:
    risk = seeds(run, name, method)[0]["risk"]
    share = np.arange(1, len(risk) + 1) / len(risk)
    axes.plot(share, 100 * np.asarray(risk), color=COLOURS[method], label=NAMES[method], linewidth=1.2)


def _more(run: Recorded) -> "Figure":
    """Plot what more draws, more members and more epochs buy."""
    figure, axes = panels(3, width=3.0, height=2.8)
    curves = (draws_curves(run), member_curves(run, "fashion"), epoch_curves(run))
    for panel, found, label in zip(axes, curves, ("draws", "members", "epochs"), strict=True):
        for method, curve in found.items():
            panel.plot(list(curve), list(curve.values()), ".-", color=COLOURS[method], label=NAMES[method], linewidth=1)
        panel.set(xlabel=label)
        panel.yaxis.set_major_formatter("{x:.3f}")
        panel.grid()
        _legend(panel)
    axes[0].set_xscale("log", base=2)
    axes[0].set_ylabel("NLL")
    return figure


def _foreign(run: Recorded) -> "Figure":
    shown = [method for method in OF_FOREIGN if any(seeds(run, name, method) for name in SETS)]
    figure, axes = panels(max(1, len(shown)), rows=2, width=2.3, height=2.1)
    for row, name in enumerate(SETS):
        for column, method in enumerate(shown):
            panel = axes[row * len(shown) + column]
            if seeds(run, name, method):
                _histograms(panel, seeds(run, name, method)[0], name)
            panel.set(title=NAMES[method] if row == 0 else "", yticks=[])
            panel.set_ylabel(SETS[name] if column == 0 else "")
            panel.title.set_fontsize(8.5)
    _legend(axes[0])
    return figure


def _histograms(axes: "Axes", result: dict[str, Any], name: str) -> None:
    x = np.linspace(0, np.log(10), len(result["home_entropy"]) + 1)
    axes.stairs(result["home_entropy"], x, fill=True, color=INK, alpha=0.3, label="test images")
    for other, colour in zip(FOREIGN[name], ("#e0533d", "#3b82c4"), strict=True):
        axes.stairs(result["foreign"][other]["histogram"], x, color=colour, label=SETS.get(other, "notMNIST"))


def _shift(run: Recorded) -> "Figure":
    figure, axes = panels(2, rows=2, width=4.2, height=3.0)
    kinds = (("rotated", "rotations", "degrees"), ("noisy", "noises", "deviation of the noise"))
    for k, (name, title) in enumerate(SETS.items()):
        for j, (what, strengths, label) in enumerate(kinds):
            panel = axes[2 * k + j]
            for method in methods(run, name):
                losses = np.mean([[one["nll"] for one in result[what]] for result in seeds(run, name, method)], axis=0)
                x = run.config[strengths]
                panel.plot(x, losses, ".-", color=COLOURS[method], label=NAMES[method], linewidth=1, markersize=4)
            panel.set(title=title, xlabel=label, ylabel="NLL" if j == 0 else "")
            panel.grid()
    _legend_below(figure, axes[0])
    return figure
