"""Show progress with the time left for work that takes more than two seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 2.0
LINE_SECONDS = 60.0
"""Without a terminal, print one line per this many seconds."""

Move = Callable[[float, str], None]


@contextmanager
def bar(title: str) -> Iterator[Move]:
    """Yield a function to call with the fraction that is done and the name of the current step."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        console=(console := Console(stderr=True)),
        transient=True,
        speed_estimate_period=3600,  # steps of a long run may be minutes apart
    )
    task = progress.add_task(title, total=1.0)
    started = printed = time.monotonic()
    first: tuple[float, float] | None = None

    def move(fraction: float, name: str) -> None:
        nonlocal printed, first
        now = time.monotonic()
        since, begun = first = first or (now, fraction)  # progress before this run says nothing about its speed
        if not console.is_terminal:
            if now - printed >= LINE_SECONDS and fraction < 1:
                printed = now
                left = (1 - fraction) / max(fraction - begun, 1e-9) * (now - since)
                remaining = f", {_minutes(left)} left" if fraction > begun else ""
                console.print(
                    f"{title} · {name}: {fraction:.0%}, {_minutes(now - started)} elapsed{remaining}", markup=False
                )
            return
        if not progress.live.is_started and now - started > PATIENCE_SECONDS and fraction < 1:
            progress.start()
        progress.update(task, completed=fraction, description=f"{title} · {name}")

    try:
        yield move
    finally:
        if progress.live.is_started:
            progress.stop()


def _minutes(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a spinner and the elapsed time for work whose progress is unknown."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(title, total=None)
        yield
