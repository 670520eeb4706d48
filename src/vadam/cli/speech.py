"""How the command speaks: words for people, JSON for machines, mistakes in words, Ctrl-C without a traceback."""

import errno
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

INTERRUPTED = 130
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CommandError(Exception):
    """A mistake of the caller, told in words that say what to do."""


@contextmanager
def in_words(
    as_json: bool, go_on: str | None = None, mistakes: tuple[type[Exception], ...] = (CommandError,)
) -> Iterator[None]:
    """Turns mistakes of the caller into one line and exit code 1, Ctrl-C into exit code 130.

    ``go_on`` is the command that continues what was interrupted; ``mistakes`` are the errors whose text is for the caller.
    """
    try:
        yield
    except KeyboardInterrupt:
        how = f" Go on with: {go_on}" if go_on else ""
        fail(f"Stopped; what is done is kept.{how}", as_json, code=INTERRUPTED)
    except mistakes as error:
        fail(str(error), as_json)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader of a pipe has gone, which click handles
        if error.errno not in NO_SPACE:
            fail(str(error), as_json)
        how = f" and go on with: {go_on}" if go_on else ""
        fail(f"There is no space to write ({error}). What is done is kept: make room{how}", as_json)
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        fail(str(error), as_json)


def fail(message: str, as_json: bool, code: int = 1) -> None:
    if as_json:
        print_json({"error": message})
    else:
        from rich.console import Console
        from rich.text import Text

        style = "yellow" if code == INTERRUPTED else "red"
        Console(stderr=True, highlight=False).print(Text(message, style=style))
    raise typer.Exit(code)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
