"""The common style of all figures: colours for light and dark pages, text in the page's own colour."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#161b22"
"""Colour of text and axes. In a page it becomes ``currentColor``, so that a figure is readable in a dark theme too."""

COLOURS = {
    "MF-Exact": "#1a9850",
    "Vadam": "#e0533d",
    "VOGN": "#3b82c4",
    "VON": "#8e6bbf",
    "BBVI": "#c98a1b",
    "paper": "#8b949e",
}

STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titlecolor": INK,
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 9.5,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "vadam",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def style(*, math: bool = True) -> Iterator[None]:
    """Apply the style inside the block; matplotlib uses no display. Without ``math`` a dollar sign in a label is a dollar sign."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError('Figures need matplotlib: pip install "vadam[plot]".') from error
    mpl.use("Agg")
    with mpl.rc_context({**STYLE, "text.parse_math": math}):
        yield


def panels(columns: int, *, width: float = 3.4, height: float = 2.9, rows: int = 1) -> "tuple[Figure, list[Axes]]":
    """Return a figure and its axes in a grid."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def svg(figure: "Figure", name: str) -> str:
    """Return SVG to embed in a page: it scales with the page and uses its text colour and font; ids begin with ``name``."""
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = _only_referenced_ids(text)
    text = re.sub(r'(\bid="|href="#|url\(#)', lambda match: f"{match[1]}{name}-", text)
    return re.sub(r"(\d\.\d{2})\d+", r"\1", text)


def _only_referenced_ids(text: str) -> str:
    """Drop ids that nothing refers to; matplotlib names every group, and gives equal paths equal ids."""
    referenced = set(re.findall(r'(?:href="#|url\(#)([\w-]+)', text))
    seen: set[str] = set()

    def keep(match: re.Match[str]) -> str:
        if match[1] not in referenced or match[1] in seen:
            return ""
        seen.add(match[1])
        return match[0]

    return re.sub(r' id="([\w-]+)"', keep, text)


def png(figure: "Figure", dpi: int = 160) -> bytes:
    """Return the figure as a PNG image."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def boxes(axes: "Axes", position: float, values: list[float], colour: str, width: float = 0.5) -> None:
    """Draw a box plot that also shows the single values."""
    axes.boxplot(
        [values],
        positions=[position],
        widths=width,
        showfliers=False,
        medianprops={"color": colour, "linewidth": 2},
        boxprops={"color": colour},
        whiskerprops={"color": colour},
        capprops={"color": colour},
    )
    spread = [position + 0.25 * width * ((i % 5) / 2 - 1) for i in range(len(values))]
    axes.plot(spread, values, ".", color=colour, markersize=3, alpha=0.5)
