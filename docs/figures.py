"""Draw the figures of the README and the documentation by the code that the pages show.

    python docs/figures.py               all figures
    python docs/figures.py regression    those of one page

A figure of a page is the current figure of matplotlib after the code above it. It carries a checksum of that code.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from page_parts import DOCS, digest, parts

from vadam import plot
from vadam.plot.theme import panels, png, style, svg

STATIC = DOCS / "_static"
RED, BLUE = "#e0533d", "#3b82c4"


def draw(page: Path) -> None:
    """Run a page and write its figures."""
    space: dict[str, Any] = {}
    code: list[str] = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder), style():
        for part in parts(page):
            if part.kind == "code":
                space = {"__name__": "snippet"} if part.fresh else space
                code = [part.text] if part.fresh else [*code, part.text]
                exec(compile(part.text, str(page), "exec"), space)
            elif part.kind == "figure":
                drawn = f'<div class="plot" data-code="{digest(code)}">{svg(plt.gcf(), part.name)}</div>\n'
                (STATIC / f"{part.name}.svg.html").write_text(drawn)
                print(f"{page.name}: {part.name}")
    plt.close("all")


def with_figures() -> Iterator[Path]:
    """Yield the pages that show figures drawn by their own code."""
    for page in sorted(DOCS.glob("*.md")):
        kinds = [part.kind for part in parts(page)]
        if "figure" in kinds and "code" in kinds:
            yield page


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
    if len(sys.argv) == 1:
        with style():
            (STATIC / "calibration.png").write_bytes(png(calibration(), dpi=130))
    for page in with_figures():
        if len(sys.argv) == 1 or page.stem in sys.argv[1:]:
            draw(page)
