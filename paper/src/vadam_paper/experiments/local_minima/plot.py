"""Plot the landscape of App. L with the four paths, and the ends of a whole grid of starts."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vadam.plot.theme import panels, style
from vadam_paper.experiments.local_minima.landscape import objective
from vadam_paper.experiments.local_minima.table import at_flat_minimum
from vadam_paper.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PATHS = ("#e0533d", "#3b82c4", "#1a9850", "#c98a1b")
DESCENT = "#000000"
LIMIT = 1.15
PIXELS = 180

CAPTIONS = {
    "paths": (
        "Left: four starts (dots), the paths of Vadam annealed to VadaGrad (coloured, ending at stars) and of "
        "gradient descent (black, ending at crosses); dark is low. Middle and right: where the starts of a whole "
        "grid end, green at the flat minimum and red elsewhere."
    ),
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    with style():
        figure, (left, middle, right) = panels(3, width=3.6, height=3.75)
        _landscape(left)
        _paths(left, run)
        left.set_title("Four starts")
        for axes, way, title in (
            (middle, "gradient_descent", "Gradient descent"),
            (right, "variational", "Vadam to VadaGrad"),
        ):
            _landscape(axes)
            _ends(axes, run, way)
            axes.set_title(f"{title}: {at_flat_minimum(run['grid'][way]).mean():.0%} flat")
    return {"paths": figure}


def animation(results: Results) -> dict[str, Any]:
    """Return the data of the animation: the landscape as an image, and the points of the four paths."""
    run = results["text"]
    paths = run["paths"]
    return {
        "caption": "The four runs step by step: the shaded ellipse is one standard deviation of q, black is gradient descent.",
        "limit": LIMIT,
        "every": max(1, run.config["steps"] // run.config["path_points"]),
        "annealed_until": run.config["annealed_until"],
        "colours": PATHS,
        "landscape": landscape_png(),
        "variational": paths["variational"]["path"],
        "stddev": paths["variational"]["stddev"],
        "descent": paths["gradient_descent"]["path"],
    }


def landscape_png() -> bytes:
    """Return a grey image of the landscape, dark where it is low, with a palette to keep it small."""
    from PIL import Image

    levels = np.round(8 + 12 * (1 + _values())) * 12
    buffer = io.BytesIO()
    Image.fromarray(levels.clip(0, 255).astype(np.uint8)).quantize(16).save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _values() -> np.ndarray:
    side = torch.linspace(-LIMIT, LIMIT, PIXELS, dtype=torch.float64)
    y, x = torch.meshgrid(side.flip(0), side, indexing="ij")
    return np.asarray(objective(torch.stack([x, y], dim=-1)))


def _landscape(axes: "Axes") -> None:
    axes.imshow(
        _values(), extent=(-LIMIT, LIMIT, -LIMIT, LIMIT), cmap="gray", vmin=-1.4, vmax=0, interpolation="bilinear"
    )
    axes.set(xlabel="x", ylabel="y", xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT))


def _paths(axes: "Axes", run: Recorded) -> None:
    variational = np.asarray(run["paths"]["variational"]["path"])
    descent = np.asarray(run["paths"]["gradient_descent"]["path"])
    for k, colour in enumerate(PATHS):
        axes.plot(*variational[:, k].T, color=colour, linewidth=1.6)
        axes.plot(*descent[:, k].T, ":", color=DESCENT, linewidth=1.6)
        axes.plot(*descent[-1, k], "x", color=DESCENT, markersize=7, markeredgewidth=2)
        axes.plot(*variational[0, k], "o", color=colour, markersize=5)
        axes.plot(*variational[-1, k], "*", color=colour, markeredgecolor="white", markersize=10)


def _ends(axes: "Axes", run: Recorded, way: str) -> None:
    """Plot where a whole grid of starts ends."""
    theta, flat = np.asarray(run["grid"][way]["theta"]), at_flat_minimum(run["grid"][way])
    axes.scatter(theta[~flat, 0], theta[~flat, 1], s=7, color="#e0533d", linewidths=0)
    axes.scatter(theta[flat, 0], theta[flat, 1], s=7, color="#2ecc71", linewidths=0)
