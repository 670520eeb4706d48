"""App. L: the landscape with the four paths, and what a whole grid of starts leads to."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vadam.experiments.local_minima.landscape import objective
from vadam.experiments.local_minima.table import at_flat_minimum
from vadam.experiments.plotting import INK, panels, style
from vadam.experiments.results import Recorded, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PATHS = ("#e0533d", "#3b82c4", "#1a9850", "#c98a1b")
LIMIT = 1.15
PIXELS = 260


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
    """What the page needs to play the four paths: the landscape as pixels from 0 to 255, and the points."""
    paths = results["text"]["paths"]
    return {
        "limit": LIMIT,
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
        axes.plot(*descent[:, k].T, ":", color="white", linewidth=1.6, label="gradient descent" if k == 0 else None)
        axes.plot(*descent[-1, k], "x", color="white", markersize=6)
        axes.plot(*variational[:, k].T, color=colour, linewidth=1.4, label="Vadam to VadaGrad" if k == 0 else None)
        axes.plot(*variational[0, k], "o", color=colour, markersize=5)
        axes.plot(*variational[-1, k], "*", color=colour, markeredgecolor="white", markersize=9)


def _starts(axes: "Axes", run: Recorded, way: str) -> None:
    starts, flat = np.asarray(run["grid"]["starts"]), at_flat_minimum(run["grid"][way])
    size = 1500 / run.config["grid"] ** 2
    axes.scatter(
        starts[~flat, 0], starts[~flat, 1], s=size, color="#8b949e", alpha=0.5, linewidths=0, label="a sharp place"
    )
    axes.scatter(starts[flat, 0], starts[flat, 1], s=size, color="#1a9850", linewidths=0, label="the flat minimum")
    axes.axis("equal")
    axes.set(xlabel="start x")
    axes.legend(loc="upper right", fontsize=8, frameon=True, framealpha=0.8, labelcolor=INK)
