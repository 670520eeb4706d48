"""Draw the figures of the first pages from the code that the pages show: python docs/figures.py."""

import re
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import torch
from matplotlib.colors import LinearSegmentedColormap, to_rgba

import vadam
from vadam import plot
from vadam.plot.theme import INK, panels, png, style, svg

DOCS = Path(__file__).parent
RED, BLUE, GREEN = "#e0533d", "#3b82c4", "#1a9850"


def run_block(containing: str) -> dict[str, Any]:
    """Return the variables that a block of the first tutorial defines."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / "getting-started.md").read_text(), re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        exec(next(block for block in blocks if containing in block), space)
    return space


def regression() -> Any:
    space = run_block("x.sin()")
    grid = torch.linspace(-5.5, 5.5, 221).unsqueeze(1)
    pred = vadam.predict(space["model"], space["post"], grid, samples=256, likelihood=space["noise"])
    at, mean = grid.flatten(), pred.mean.flatten()
    epistemic, total = 2 * pred.epistemic.flatten(), 2 * pred.std.flatten()
    figure, (axes,) = panels(1, width=7.0, height=2.6)
    axes.fill_between(at, mean - total, mean + total, color=RED, alpha=0.18, linewidth=0, label="± 2 std of y")
    axes.fill_between(at, mean - epistemic, mean + epistemic, color=RED, alpha=0.3, linewidth=0, label="± 2 epistemic")
    axes.plot(at, mean, color=RED, linewidth=1.8, label="mean")
    axes.plot(space["x"].flatten(), space["y"].flatten(), ".", color=INK, markersize=3, alpha=0.7, label="data")
    axes.set(xlim=(-5.5, 5.5), ylim=(-2.6, 2.6), xlabel="x")
    axes.legend(ncols=4, loc="upper center", fontsize=8.5)
    return figure


def classification() -> Any:
    space = run_block("vadam.Categorical()")
    side = torch.linspace(-10, 10, 41)
    grid = torch.cartesian_prod(side, side)
    post = space["opt"].posterior()
    pred = vadam.predict(space["model"], post, grid, samples=256, likelihood=space["classes"], batch_size=2000)
    fading = LinearSegmentedColormap.from_list("fading", [to_rgba(RED, 0.0), to_rgba(RED, 1.0)])
    figure, axes = panels(2, width=3.5, height=3.1)
    shown = {
        "aleatoric: expected entropy": pred.expected_entropy,
        "epistemic: mutual information": pred.mutual_information,
    }
    for ax, (title, value) in zip(axes, shown.items(), strict=True):
        image = ax.contourf(side, side, value.view(41, 41).T, levels=torch.linspace(0, 0.7, 8).tolist(), cmap=fading)
        for label, colour in ((0, BLUE), (1, GREEN)):
            ax.plot(*space["x"][space["y"] == label].T, ".", color=colour, markersize=2.5)
        ax.plot(*space["where"].T, "x", color=INK, markersize=7, markeredgewidth=2)
        ax.set(title=title, xlim=(-10, 10), ylim=(-10, 10))
    figure.colorbar(image, ax=axes, label="nats", ticks=[0, 0.2, 0.4, 0.6])
    return figure


def calibration() -> Any:
    """Draw the reliability of the README's example, by Vadam and by Adam."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS.parent / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    code = next(block for block in blocks if "right = " in block)
    figure, (axes,) = panels(1, width=4.6, height=3.2)
    for name, program, colour in (("Adam", by_adam(code), BLUE), ("Vadam", code, RED)):
        space: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            exec(program, space)
        plot.reliability(space["pred"], space["y"][200:], ax=axes, label=name, color=colour)
    axes.set(xlim=(0.5, 1), ylim=(0.4, 1))
    axes.lines[0].set_linestyle("--")
    return figure


def by_adam(code: str) -> str:
    """Return the README's example with Adam, and its weights as a posterior without spread."""
    code = re.sub(r"opt = vadam\.Vadam\(.*\)\n", "opt = torch.optim.Adam(model.parameters(), lr=0.01)\n", code)
    code = re.sub(r"opt\.attach.*\n", "", code)
    point = "{name: p.detach() for name, p in model.named_parameters()}"
    return re.sub(r"opt\.posterior\(model\)", f"vadam.MeanFieldGaussian({{}}, {{}}, point={point})", code)


if __name__ == "__main__":
    with style():
        (DOCS / "_static" / "calibration.png").write_bytes(png(calibration(), dpi=130))
    for draw in (regression, classification):
        with style():
            figure = draw()
        (DOCS / "_static" / f"{draw.__name__}.svg.html").write_text(
            f'<div class="plot">{svg(figure, draw.__name__)}</div>\n'
        )
