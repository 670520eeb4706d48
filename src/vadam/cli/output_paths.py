"""Check before a long computation that its results can be written."""

import os
from pathlib import Path

from vadam.cli.errors import CommandError


def check_folder(path: Path) -> None:
    """Create a folder if it does not exist; raise CommandError if nothing can be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"The folder {path} cannot be created ({error.strerror}): give another path.") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise CommandError(f"{path} cannot be written to: change its permissions, or give another path.")


def check_distinct(model: Path, page: Path) -> None:
    """Raise CommandError if model and page have the same path."""
    if model.resolve() == page.resolve():
        raise CommandError(f"{model} cannot be both model and page: give --out or --report another name.")


def check_keeps(path: Path, *inputs: Path) -> None:
    """Raise CommandError if writing the path would replace a file that the command reads."""
    for read in inputs:
        if path.exists() and read.exists() and path.samefile(read):
            raise CommandError(f"{path} is read by this command and would be replaced: give another path to write to.")


def check_file(path: Path) -> None:
    """Create the parent folder of a file if needed; raise CommandError if the file cannot be written."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder: give the path of a file.")
    check_folder(path.parent)
