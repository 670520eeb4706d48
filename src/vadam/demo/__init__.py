"""``make demo``: the family beside Adam on small data that needs no download, as a table and as one static page.

wave.py       one input with a gap: bands that widen where there are no data
ellipses.py   logistic regression with two weights: posteriors on the contours of the true one
tabular.py    Boston and Concrete: error, log-likelihood and coverage on rows that were held out
methods.py    the optimizers with their settings, the same for all regressions
regression.py how a method is trained and judged: one loop for Adam and for the family
plan.py       what is trained in which order, and what has come out so far
figures.py, page.py, console.py   how it is shown
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vadam.demo.plan import Results, Size

__all__ = ["main"]


def main(out: Path = Path("report"), size: "Size | None" = None) -> "Results":
    """Train, print the table, write ``out/index.html``, its figures and ``out/demo.json``.

    Ctrl-C prints and writes what is done, and goes on as a KeyboardInterrupt.
    """
    import torch

    from vadam.demo import console, page, tabular
    from vadam.demo.plan import Results, Size, run

    torch.set_num_threads(1)  # networks this small are slower on two
    results = Results(size or Size())
    page.check()
    tabular.check()
    try:
        with console.progress() as move:
            run(results, move)
    finally:
        console.show(results)
        if results.anything:
            console.say(f"The page: {page.write(results, Path(out)).resolve().as_uri()}")
    return results
