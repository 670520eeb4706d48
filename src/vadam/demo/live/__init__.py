"""The live page: drag the settings and see Adam, Vadam and VOGN move. Plain JavaScript in one HTML file, without a server.

rules.mjs        the update rules for one weight, line by line those of ``vadam.rules``
random.mjs       random numbers, the stream of ``numpy.random.RandomState``
landscape.mjs    the landscape of the paper's appendix L
logistic.mjs     logistic regression with two weights, its posterior and the best mean-field Gaussian
race.mjs         all optimizers from one start, on the same minibatches and the same noise
pictures.mjs, problems.mjs, template.mjs, figure.mjs   what is shown
"""

import re
from pathlib import Path

import numpy as np

from vadam import atomic, data
from vadam.report import html

__all__ = ["MODULES", "fragment", "write"]

MODULES = ("rules", "random", "race", "landscape", "logistic", "pictures", "problems", "template", "figure")
"""The scripts, each after the ones that it imports."""


def fragment() -> str:
    """Return the figures with their style, data and script, to be embedded in any page."""
    X, y = data.murphy_like()
    return html.fill(
        html.asset("figures.html", __package__),
        style=html.asset("live.css", __package__),
        rows=html.json_script(np.column_stack([X, y]).tolist()),
        script=_bundle(),
    )


def write(out: Path) -> Path:
    """Write the page as ``out/live.html``; return its path."""
    page = html.fill(html.asset("page.html", __package__), style=html.asset("page.css"), figures=fragment())
    path = out / "live.html"
    atomic.write_text(path, page)
    return path


def _bundle() -> str:
    """Return all scripts as one: a page that is opened as a file cannot import modules."""
    text = "\n".join(html.asset(f"{name}.mjs", __package__) for name in MODULES)
    return re.sub(r"^export ", "", re.sub(r"^import .*?;\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
