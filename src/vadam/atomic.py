"""Write files atomically: a reader sees the old content or the new content, never a part.

The content is written to a temporary file ``.<name>.<32 hex digits>.tmp`` beside the target, which is then renamed. Its
name is unique and it is created exclusively, so writers may race and a planted link is not followed. A writer holds a
lock on its temporary file. A temporary file without a lock belongs to a writer that was killed: the next write removes it.

A link of the user's own stays, and the file that it leads to is replaced. A link of somebody else may lead anywhere: it is replaced
itself. Devices and pipes such as ``/dev/stdout`` are written to.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

LINKS_AT_MOST = 40
"""Length of a chain of links, as in Linux, beyond which it counts as a circle."""


def write_bytes(path: Path, content: bytes, *, parents: bool = True) -> None:
    """Replace the file at ``path``, which keeps its mode, or create it; on an error the old file stays unchanged.

    Missing folders are created unless ``parents`` is False, which raises FileNotFoundError.
    """
    path = _behind_own_links(path)
    if path.exists() and not path.is_symlink() and not path.is_file() and not path.is_dir():
        with path.open("wb") as device:
            device.write(content)
        return
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    file = _create_beside(path)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32" and path.exists() and not path.is_symlink():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            if sys.platform == "win32":
                file.close()  # an open file cannot be renamed there
            os.replace(file.name, path)
    finally:
        Path(file.name).unlink(missing_ok=True)


def write_text(path: Path, content: str) -> None:
    """Replace the file at ``path``, or create it, with UTF-8 text."""
    write_bytes(path, content.encode())


def _behind_own_links(path: Path) -> Path:
    """Return the file behind links of this user and of root."""
    for _ in range(LINKS_AT_MOST):
        if not path.is_symlink() or (sys.platform != "win32" and path.lstat().st_uid not in (os.geteuid(), 0)):
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _create_beside(path: Path) -> IO[bytes]:
    """Open a new temporary file and lock it."""
    while True:
        file = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp").open("xb")
        if sys.platform != "win32":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # removed by another writer before it was locked


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files of this target whose writers were killed."""
    if sys.platform == "win32":
        return  # a locked file cannot be renamed there, so no writer holds a lock
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 32}.tmp"):
        with suppress(OSError):  # locked by a writer at work, or renamed meanwhile
            descriptor = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                temporary.unlink()
            finally:
                os.close(descriptor)
