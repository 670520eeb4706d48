"""Plot Theorem 1 through the enumerated means, and the two paths of App. H to one fixed point."""

from typing import TYPE_CHECKING

import numpy as np

from vadam.plot.theme import COLOURS, INK, panels, style
from vadam_paper.experiments.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATH_COLOURS = {"with square root": COLOURS["Vadam"], "without square root": COLOURS["VOGN"]}

CAPTIONS = {
    "theory": (
        "Left: the mean of ĝ² over all minibatches, divided by the Gauss-Newton diagonal, falls with the minibatch"
        " size as Theorem 1 says. Right: with and without the square root the mean takes different paths to one "
        "fixed point."
    ),
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    with style():
        figure, (left, right) = panels(2, width=4.2, height=3.0)
        theorem = run["theorem-1"]
        sizes = [row["M"] for row in theorem["sizes"]]
        h, g2 = np.asarray(theorem["ggn"]), np.asarray(theorem["squared_gradient"])
        M = np.linspace(1, theorem["num_data"], 200)
        w = (theorem["num_data"] - M) / (M * (theorem["num_data"] - 1))
        enumerated = np.asarray([row["enumerated"] for row in theorem["sizes"]])
        for j in range(len(h)):
            left.plot(M, (w * h[j] + (1 - w) * g2[j]) / h[j], color=COLOURS["paper"], linewidth=1)
            left.plot(sizes, enumerated[:, j] / h[j], ".", color=COLOURS["Vadam"], markersize=5)
        left.plot([], [], color=COLOURS["paper"], label="Theorem 1")
        left.plot([], [], ".", color=COLOURS["Vadam"], label="all minibatches, each coordinate")
        left.set(xlabel="minibatch size M", ylabel="E[ĝ²] / GGN", title="The gradient magnitude’s bias")
        left.legend(fontsize=8)
        for name, colour in PATH_COLOURS.items():
            path = run["fixed-points"]["runs"][name]
            right.plot(*np.asarray(path["first_mean_and_stddev"]).T, color=colour, label=name)
            right.plot(path["mean"][0], path["stddev"][0], "o", color=INK, markersize=5, zorder=3)
        right.set(xlabel="μ₁", ylabel="σ₁", title="Two paths, one fixed point")
        right.legend(fontsize=8)
        for axes in (left, right):
            axes.grid()
    return {"theory": figure}
