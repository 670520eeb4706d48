"""Report errors of the command line as one line of text or JSON, with an exit code and without a traceback."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from vadam.cli.json_output import print_json

INTERRUPTED = 130
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CommandError(Exception):
    """An error that the user can fix; its text says how."""


@contextmanager
def exit_on_error(
    as_json: bool,
    resume_command: str | None = None,
    user_errors: tuple[type[Exception], ...] = (CommandError,),
    kept: str = "Finished results are kept.",
) -> Iterator[None]:
    """Print an error as one line and exit with code 1; exit with code 130 on Ctrl-C.

    ``resume_command`` is the command that continues an interrupted run, ``kept`` says what an interruption leaves.
    ``user_errors`` are the exception types whose text is written for the user. Other exceptions propagate.
    """
    try:
        yield
    except KeyboardInterrupt:
        how = f" Continue with: {resume_command}" if resume_command else ""
        fail(f"Stopped. {kept}{how}", as_json, code=INTERRUPTED)
    except user_errors as error:
        fail(str(error), as_json)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # click handles a closed pipe
        if error.errno not in NO_SPACE:
            fail(str(error), as_json)
        how = f" and continue with: {resume_command}" if resume_command else ""
        fail(f"No space left to write ({error}). {kept} Free some space{how}", as_json)
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        fail(str(error), as_json)


def fail(message: str, as_json: bool, code: int = 1) -> None:
    """Print the message to stderr, or as JSON to stdout, and exit with the code."""
    if as_json:
        print_json({"error": message})
    else:
        from rich.console import Console
        from rich.text import Text

        style = "yellow" if code == INTERRUPTED else "red"
        Console(stderr=True, highlight=False).print(Text(message, style=style))
    raise typer.Exit(code)
