"""Where data files may lie: an explicit folder, ``VADAM_DATA``, the cache."""

import os
from pathlib import Path
from typing import NamedTuple

from vadam_paper.data.errors import DataNotAvailable


class Folder(NamedTuple):
    path: Path
    role: str


def cache() -> Path:
    """``VADAM_CACHE`` or ``~/.cache/vadam``. Downloads go here; it has the same layout as a data folder."""
    return Path(os.environ.get("VADAM_CACHE") or "~/.cache/vadam").expanduser()


def search_order(root: str | os.PathLike[str] | None) -> list[Folder]:
    """The folders to look in, first match wins. A folder that was asked for and does not exist is an error."""
    asked_for = [(root, "the given folder"), (os.environ.get("VADAM_DATA"), "VADAM_DATA")]
    folders = [Folder(Path(path).expanduser(), role) for path, role in asked_for if path]
    for path, role in folders:
        if not path.is_dir():
            raise DataNotAvailable(f"{role} is {str(path)!r}, which is not a folder: create it or name another one")
    return [*folders, Folder(cache(), "cache")]
