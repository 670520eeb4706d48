"""Print progress and the table of results in the terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vadam.demo.trainings import EXACT, Results

if TYPE_CHECKING:
    from rich.console import Console

Move = Callable[[float, str], None]

COLUMNS = ("RMSE", "log-likelihood", "90 % coverage", "seconds")
TITLES = {"wave": "curve, gap", "boston": "boston", "concrete": "concrete"}


@contextmanager
def progress() -> Iterator[Move]:
    """Show a progress bar with the time left; without a terminal, print one line for each training."""
    console = _console(stderr=True)
    if not console.is_terminal:
        yield _lines(console)
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("left"))
    with Progress(
        *columns, TimeRemainingColumn(), TextColumn("elapsed"), TimeElapsedColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, title: bar.update(task, completed=share, description=title)


def show(results: Results) -> None:
    """Print the table of results."""
    from rich.table import Table

    if not results.complete:
        echo(
            "Stopped early: methods that are not listed were not trained."
            if results.anything
            else "Stopped before the first training was complete."
        )
    scores = Table(title="Held-out test rows", title_justify="left")
    scores.add_column("data")
    scores.add_column("method")
    for column in COLUMNS:
        scores.add_column(column, justify="right")
    for problem, by_method in results.scores.items():
        for i, (method, score) in enumerate(by_method.items()):
            numbers = (
                f"{score.rmse:.2f}",
                f"{score.log_likelihood:.2f}",
                f"{score.coverage:.0%}",
                f"{score.seconds:.1f}",
            )
            last = i == len(by_method) - 1
            scores.add_row(TITLES[problem] if i == 0 else "", method, *numbers, end_section=last)
    if results.digits:
        echo(_digits(results))
    if results.scores:
        echo(scores)
    for name, ellipse in results.ellipses.items():
        if ellipse.divergence:
            echo(f"Logistic regression, {name}: {ellipse.divergence:.2f} nats (symmetric KL) from {EXACT}")


def _digits(results: Results) -> Any:
    """Return the table of the digits, one row for each score."""
    from rich.table import Table

    from vadam.demo.text import DIGIT_SCORES

    table = Table(title="Handwritten digits", title_justify="left")
    table.add_column("score")
    for method in results.digits:
        table.add_column(method, justify="right")
    for title, (read, places, _) in DIGIT_SCORES.items():
        table.add_row(title, *(f"{read(doubt):.{places}f}" for doubt in results.digits.values()))
    return table


def echo(what: Any) -> None:
    """Print a line or a table to standard output."""
    _console().print(what, markup=False)


def _lines(console: "Console") -> Move:
    started, shown = time.monotonic(), ""

    def move(share: float, title: str) -> None:
        nonlocal shown
        if title == shown:
            return
        shown = title
        gone = time.monotonic() - started
        left = f", about {gone / share - gone:.0f} s left" if share > 0 else ""
        console.print(f"{share:4.0%} {title}{left}", markup=False)

    return move


def _console(stderr: bool = False) -> "Console":
    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError('The demo prints its table with rich: pip install "vadam[cli]".') from error
    return Console(stderr=stderr, highlight=False)
