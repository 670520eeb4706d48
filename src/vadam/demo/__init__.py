"""``make demo``: the optimizers beside Adam on small data that needs no download, as a table and one static page.

digits.py       handwritten digits by AdamW and by Vadam: calibration, OOD inputs, selective prediction
wave.py         a curve with a gap in the inputs: bands that widen where there are no data
ellipses.py     logistic regression with two weights: approximate posteriors on the contours of the true one
tabular.py      Boston and Concrete: error, log-likelihood and coverage on held-out rows
methods.py      the optimizers with their settings, the same for all regressions
regression.py   train and evaluate a method: one loop for Adam and the variational optimizers
trainings.py    the list of trainings, and their results so far
figures.py, page.py, text.py, console.py   the output
live/           a second page: drag the settings and see the optimizers move, in the browser
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vadam.demo.trainings import Results, Size

__all__ = ["main"]


def main(out: Path = Path("report"), size: "Size | None" = None) -> "Results":
    """Train, print the table, write ``out/index.html``, its figures, ``out/live.html`` and ``out/demo.json``.

    On Ctrl-C it prints and writes the results so far, and raises KeyboardInterrupt again.
    """
    import torch

    from vadam.demo import console, digits, page, tabular
    from vadam.demo.trainings import Results, Size, run

    torch.set_num_threads(1)  # networks this small are slower on two
    results = Results(size or Size())
    _check(page.check, tabular.check, digits.images)
    try:
        with console.progress() as move:
            run(results, move)
    finally:
        console.show(results)
        if results.anything:
            console.echo(f"The page: {page.write(results, Path(out)).resolve().as_uri()}")
    return results


def _check(*needs: Callable[[], object]) -> None:
    """Raise one ImportError that names all missing packages, before the training."""
    missing = []
    for need in needs:
        try:
            need()
        except ImportError as error:
            missing.append(str(error))
    if missing:
        raise ImportError(" ".join(missing))
