"""Lock a file for one process; the operating system releases the lock of a killed process."""

import sys
from typing import IO

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    FAR_BEYOND_THE_CONTENT = 1 << 40  # Windows forbids reading a locked byte

    def try_lock(file: IO[bytes]) -> bool:
        try:
            file.seek(FAR_BEYOND_THE_CONTENT)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
