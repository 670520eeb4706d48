"""A progress bar with the time left, for what takes more than two seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 2.0

Move = Callable[[float, str], None]


@contextmanager
def bar(title: str) -> Iterator[Move]:
    """Yields a function to call with the fraction that is done and the name of what is being done."""
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
        TextColumn("gone"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(title, total=1.0)
    started = time.monotonic()

    def move(fraction: float, name: str) -> None:
        if not progress.live.is_started and time.monotonic() - started > PATIENCE_SECONDS and fraction < 1:
            progress.start()
        progress.update(task, completed=fraction, description=f"{title} · {name}")

    try:
        yield move
    finally:
        progress.stop()


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """For work that cannot say how far it is: that it goes on, and since when."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(title, total=None)
        yield
