"""The folders that are searched for data files: an explicit folder, ``VADAM_DATA``, the cache."""

import os
from pathlib import Path
from typing import NamedTuple

from vadam_paper.data.errors import DataNotAvailable


class Folder(NamedTuple):
    """A folder, and the role in which it is searched."""

    path: Path
    role: str


def cache() -> Path:
    """Return ``VADAM_CACHE`` or ``~/.cache/vadam``, the target of downloads, with the layout of a data folder."""
    return Path(os.environ.get("VADAM_CACHE") or "~/.cache/vadam").expanduser()


def search_order(root: str | os.PathLike[str] | None) -> list[Folder]:
    """Return the folders to search, in order; raise DataNotAvailable if a requested folder does not exist."""
    asked_for = [(root, "the given folder"), (os.environ.get("VADAM_DATA"), "VADAM_DATA")]
    folders = [Folder(Path(path).expanduser(), role) for path, role in asked_for if path]
    for path, role in folders:
        if not path.is_dir():
            raise DataNotAvailable(f"{role} is {str(path)!r}, which is not a folder: create it or name another one")
    return [*folders, Folder(cache(), "cache")]
