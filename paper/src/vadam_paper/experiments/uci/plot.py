"""Plot the convergence curves of the appendix, and Table 1 as a picture."""

from typing import TYPE_CHECKING

import numpy as np

from vadam.plot.theme import COLOURS, panels, style
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.uci.comparison import NAMES, SETS, mean, paper, values
from vadam_paper.experiments.uci.convergence import curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = {**COLOURS, "Vprop": "#8e6bbf", "MC-Dropout": "#1a9850"}
PANELS_A_ROW = 4
CURVES = ("bbvi", "vadam", "vprop", "vogn")

CAPTIONS = {
    "table": (
        "Table 1 as a picture: RMSE relative to the paper’s BBVI and joint log-likelihood minus the paper’s BBVI, with two "
        "standard errors; filled: this run, hollow: the paper. MC-Dropout by the pointwise log-likelihood. Naval has no RMSE: "
        "the paper’s rounds to zero."
    ),
    "convergence": (
        "Test RMSE of the final runs after every epoch, with 100 samples: mean and one standard error over the splits. "
        "Vprop runs at Vadam’s hyper-parameters, as in the paper’s figure. What lies above the third epoch of the others is cut off."
    ),
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results.get("authors") or results.get("text")
    if run is None:
        return {}
    with style():
        return {"table": _table(run), "convergence": _convergence(run)}


def _table(run: Recorded) -> "Figure":
    figure, (rmse, ll) = panels(2, width=5.2, height=4.2)
    shown = [name for name in SETS if name in run.config["sets"]]
    for row, name in enumerate(shown):
        for lane, method in enumerate(("mc-dropout", "bbvi", "vadam", "vogn", "vprop")):
            height = row + 0.36 - 0.16 * lane
            _draw_pair(rmse, run, method, name, "rmse", height)
            _draw_pair(
                ll, run, method, name, "log_likelihood" if method == "mc-dropout" else "joint_log_likelihood", height
            )
    for axes in (rmse, ll):
        axes.set(yticks=range(len(shown)), yticklabels=[name.capitalize() for name in shown])
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.grid(axis="x")
    rmse.set(xlabel="RMSE / the paper’s BBVI", xscale="log")
    rmse.set_xticks([0.5, 0.7, 1, 1.5, 2], labels=["0.5", "0.7", "1", "1.5", "2"])
    rmse.minorticks_off()
    ll.set(xlabel="log-likelihood − the paper’s BBVI", yticklabels=[])
    for method, name in NAMES.items():
        if any(values(run, method, one, "rmse") is not None for one in shown):
            ll.plot([], [], "o", color=COLOUR[name], label=name, markersize=4)
    ll.plot([], [], "o", color=COLOURS["paper"], markerfacecolor="none", label="paper", markersize=4)
    ll.legend(fontsize=7, loc="best")
    return figure


def _draw_pair(axes: "Axes", run: Recorded, method: str, name: str, metric: str, height: float) -> None:
    reference = paper("bbvi", name, "rmse" if metric == "rmse" else "joint_log_likelihood")
    ours, papers = values(run, method, name, metric), paper(method, name, metric)
    assert reference is not None
    if metric == "rmse" and reference.mean < 0.01:
        return  # the paper's rounds to zero
    beside = ((ours if ours is None else mean(ours), COLOUR[NAMES[method]], 0.0), (papers, "none", -0.07))
    for value, face, above in beside:
        if value is None or not np.isfinite(value.mean):
            continue
        x, error = value.mean, 2 * value.error
        x, error = (x / reference.mean, error / reference.mean) if metric == "rmse" else (x - reference.mean, error)
        axes.errorbar(
            [x],
            [height + above],
            xerr=[error],
            fmt="o",
            color=COLOUR[NAMES[method]],
            markerfacecolor=face,
            markersize=4,
            lw=1,
        )


def _convergence(run: Recorded) -> "Figure":
    shown = [name for name in SETS if curves(run, "vadam", name) is not None or curves(run, "bbvi", name) is not None]
    columns = min(PANELS_A_ROW, len(shown))
    figure, axes = panels(columns, rows=-(-len(shown) // columns), width=2.6, height=2.2)
    for panel, name in zip(axes, shown, strict=False):
        _draw_curves(panel, run, name)
    for panel in axes[::columns]:
        panel.set_ylabel("test RMSE")
    for method in CURVES:
        if any(curves(run, method, name) is not None for name in shown):
            axes[0].plot([], [], color=COLOUR[NAMES[method]], label=NAMES[method])
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=7, loc="outside upper center", ncols=len(CURVES))
    return figure


def _draw_curves(panel: "Axes", run: Recorded, name: str) -> None:
    early, late = [], []
    for method in CURVES:
        rmse = curves(run, method, name)
        if rmse is None:
            continue
        middle, error = rmse.mean(0), rmse.std(0) / np.sqrt(len(rmse))
        epochs, colour = np.arange(1, len(middle) + 1), COLOUR[NAMES[method]]
        panel.plot(epochs, middle, color=colour, lw=1.2)
        panel.fill_between(epochs, middle - error, middle + error, color=colour, alpha=0.25, linewidth=0)
        if np.isfinite(middle).all():
            early.append(middle[min(2, len(middle) - 1)])
            late.append((middle - error).min())
    panel.set(title=name.capitalize(), xlabel="epoch")
    if early:
        panel.set_ylim(0.9 * min(late), 1.05 * max(early))  # the first two epochs would hide the others
    panel.grid()
