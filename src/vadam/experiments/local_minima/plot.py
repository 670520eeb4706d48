"""App. L: the landscape with the four paths, and what a whole grid of starts leads to."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vadam.experiments.local_minima.landscape import objective
from vadam.experiments.local_minima.table import at_flat_minimum
from vadam.experiments.plotting import panels, style
from vadam.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PATHS = ("#e0533d", "#3b82c4", "#1a9850", "#c98a1b")
DESCENT = "#000000"
LIMIT = 1.15
PIXELS = 260

CAPTIONS = {
    "paths": (
        "Left: four starts (dots), the paths of Vadam annealed to VadaGrad (coloured, ending at stars) and of "
        "gradient descent (black, ending at crosses); dark is low. Middle and right: which starts of a grid lead "
        "to the flat minimum."
    ),
}


def figures(results: Results) -> "dict[str, Figure]":
    run = results["text"]
    with style():
        figure, (left, middle, right) = panels(3, width=3.6, height=3.5)
        _landscape(left)
        _paths(left, run)
        left.set_title("Four starts")
        for axes, way, title in (
            (middle, "gradient_descent", "Gradient descent"),
            (right, "variational", "Vadam to VadaGrad"),
        ):
            _starts(axes, run, way)
            axes.set_title(f"{title}: where starts lead")
    return {"paths": figure}


def animation(results: Results) -> dict[str, Any]:
    """What the page needs to play the four paths: the landscape as an image, and the points."""
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
    """Grey: the lower, the darker; a palette image, so that it is small."""
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


def _starts(axes: "Axes", run: Recorded, way: str) -> None:
    """One pixel for each start: green where it leads to the flat minimum."""
    side = run.config["grid"]
    flat = at_flat_minimum(run["grid"][way]).reshape(side, side).T
    green, grey = (26, 152, 80, 255), (139, 148, 158, 110)
    pixels = np.where(flat[..., None], green, grey).astype(np.uint8)
    half = 1 + 1 / (side - 1)
    axes.imshow(pixels, origin="lower", extent=(-half, half, -half, half), interpolation="nearest")
    axes.set(xlabel=f"start x; {100 * flat.mean():.0f} % reach the flat minimum", ylabel="start y")
