"""Draw the panels of the page, one figure each, so that a narrow screen can stack them."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vadam.demo import digits, ellipses, tabular, wave
from vadam.demo.trainings import EXACT, Results
from vadam.plot import theme
from vadam.plot.theme import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = theme.COLOURS | {"AdamW": "#7d8590", "MAP-Adam": "#7d8590", "Vprop": "#8e6bbf"}
LINES = {EXACT: "-.", "Vadam, M = 10": "--"}


def colour(method: str) -> str:
    """Return the colour of a method, whatever its batch size or input."""
    return COLOURS[method.split(",")[0]]


def digit_panels(results: Results) -> "dict[str, tuple[Figure, str]]":
    """Return the figures of calibration, selective prediction and OOD inputs, with their descriptions in words."""
    return {"calibration": _calibration(results), "risk": _risk(results), "foreign": _foreign(results)}


def _calibration(results: Results) -> "tuple[Figure, str]":
    with theme.style(math=False):
        figure, [axes] = theme.panels(1, width=3.6, height=2.9)
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
        for method, doubt in results.digits.items():
            axes.plot(doubt.confidence, doubt.right, ".-", color=colour(method), label=method)
        axes.set(title="Calibration", xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
        axes.legend(loc="upper left", fontsize=8)
    errors = ", ".join(f"{method} {doubt.ece:.1%}" for method, doubt in results.digits.items())
    return figure, f"A calibrated method lies on the diagonal. Mean distance from it (ECE): {errors}."


def _risk(results: Results) -> "tuple[Figure, str]":
    with theme.style(math=False):
        figure, [axes] = theme.panels(1, width=3.6, height=2.9)
        axes.axhline(100 * digits.RISK, color=INK, linewidth=0.8, linestyle=":")
        for method, doubt in results.digits.items():
            share = np.arange(1, len(doubt.risk) + 1) / len(doubt.risk)
            axes.plot(share, 100 * np.asarray(doubt.risk), color=colour(method), label=method)
        axes.set(title="Answer only when sure", xlabel="share of images answered", ylabel="error, %", xlim=(0.5, 1))
        axes.legend(loc="upper left", fontsize=8)
    shares = ", ".join(f"{method} answers {doubt.answered:.0%}" for method, doubt in results.digits.items())
    return figure, f"At an error of {digits.RISK:.0%} (dotted): {shares} of the test images."


def _foreign(results: Results) -> "tuple[Figure, str]":
    bins = np.linspace(0, np.log(10), 25).tolist()
    with theme.style(math=False):
        figure, panels = theme.panels(len(results.digits), width=1.9, height=2.9)
        for axes, (method, doubt) in zip(panels, results.digits.items(), strict=True):
            axes.hist(doubt.home_entropy, bins, density=True, color=INK, alpha=0.3, label="test")
            axes.hist(doubt.foreign_entropy, bins, density=True, histtype="step", color=colour(method), label="OOD")
            axes.set(title=method, xlabel="entropy, nats", yscale="log", yticks=[])
            axes.legend(fontsize=7)
    means = ", ".join(f"{method} {np.mean([*doubt.auroc.values()]):.2f}" for method, doubt in results.digits.items())
    return figure, f"Entropy of the predictions. AUROC of OOD inputs, mean over the kinds: {means}."


def wave_panels(results: Results) -> "dict[str, tuple[Figure, str]]":
    """Return a figure and its description in words for each method."""
    problem = wave.problem()
    panels = {}
    for method, band in results.bands.items():
        with theme.style(math=False):
            figure, [axes] = theme.panels(1, width=3.6, height=2.6)
            axes.axvspan(-wave.NEAREST, wave.NEAREST, color=INK, alpha=0.06, linewidth=0)
            axes.fill_between(band.x, band.low, band.high, color=colour(method), alpha=0.3, linewidth=0)
            axes.plot(band.x, wave.curve(torch.from_numpy(band.x)), color=INK, linestyle=":", linewidth=1)
            axes.plot(band.x, band.mean, color=colour(method), linewidth=1.8)
            axes.plot(problem.x, problem.y, ".", color=INK, markersize=2.5, alpha=0.7)
            axes.set(
                title=method, xlim=(-wave.EDGE, wave.EDGE), ylim=(-4, 4), xticks=[-6, -3, 0, 3, 6], yticks=[-3, 0, 3]
            )
        panels[method] = (
            figure,
            (
                f"{method}: the standard deviation of the function is {band.among_data:.2f} among the data, "
                f"{band.in_gap:.2f} in the gap, {band.beyond:.2f} at the ends."
            ),
        )
    return panels


def ellipse_panel(results: Results) -> "tuple[Figure, str]":
    """Return the figure of the posteriors over two weights, and its description in words."""
    truth = ellipses.true_posterior()
    density, levels = truth.density.T.numpy(), truth.levels()
    with theme.style(math=False):
        figure, [axes] = theme.panels(1, width=4.6, height=3.4)
        greys = ["#8b949e30", "#8b949e60", "#8b949ea0"]
        axes.contourf(truth.x, truth.y, density, levels=[*levels, 1.01 * density.max()], colors=greys)
        axes.contour(truth.x, truth.y, density, levels=levels, colors=INK, linewidths=0.5, alpha=0.6)
        angle = np.linspace(0, 2 * np.pi, 90)
        for name, q in results.ellipses.items():
            x, y = q.mean[:, None] + q.stddev[:, None] * np.stack([np.cos(angle), np.sin(angle)])
            axes.plot(x, y, color=colour(name), linestyle=LINES.get(name, "-"), linewidth=1.8, label=name)
            axes.plot(*q.mean, ".", color=colour(name), markersize=5)
        axes.set(xlabel="θ₁", ylabel="θ₂", xlim=(0, 9), ylim=(-0.2, 3.6))
        axes.legend(loc="upper left", fontsize=8)
    divergences = ", ".join(f"{name} {q.divergence:.2f}" for name, q in results.ellipses.items() if name != EXACT)
    return figure, f"Ellipses of one standard deviation. Symmetric KL from {EXACT}, in nats: {divergences}."


def prediction_panel(results: Results, name: str, method: str) -> "tuple[Figure, str]":
    """Return a figure of predictions with their intervals against the actual values."""
    rows = results.intervals[name][method]
    with theme.style(math=False):
        figure, [axes] = theme.panels(1, width=3.9, height=3.3)
        bars = np.stack([rows.mean - rows.low, rows.high - rows.mean])
        inside = (rows.low <= rows.actual) & (rows.actual <= rows.high)
        for chosen, shade in ((inside, colour(method)), (~inside, INK)):
            axes.errorbar(
                rows.actual[chosen],
                rows.mean[chosen],
                yerr=bars[:, chosen],
                fmt=".",
                color=shade,
                elinewidth=1,
                alpha=0.6,
            )
        ends = [rows.actual.min(), rows.actual.max()]
        axes.plot(ends, ends, color=INK, linewidth=0.8)
        axes.set(title=f"{method}: {inside.mean():.0%} of {len(inside)} inside", xlabel="actual", ylabel="predicted")
    return figure, f"{name.title()}, {method}: {inside.sum()} of {len(inside)} test rows lie in their 90 % interval."


def coverage_panel(results: Results, name: str) -> "tuple[Figure, str]":
    """Return a figure of the share of test rows in intervals of every level, for every method."""
    with theme.style(math=False):
        figure, [axes] = theme.panels(1, width=3.9, height=3.3)
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
        markers = iter("osv^D")
        for method, rows in results.intervals[name].items():
            how: dict[str, Any] = {"marker": next(markers), "markersize": 3.5, "linewidth": 1.2}
            axes.plot(tabular.LEVELS, rows.covered, color=colour(method), label=method, **how)
        axes.set(title="Coverage", xlabel="level of the interval", ylabel="share of test rows inside")
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.legend(loc="lower right", fontsize=8)
    return figure, f"{name.title()}: a calibrated method lies on the diagonal."
