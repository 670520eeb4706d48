"""Download one file from its public address into the cache; resume it if interrupted, and check it before renaming it.

The bytes go to ``<target>.part``, which survives an interruption and is continued with an HTTP range request. Only a
file whose checksum is right is renamed to ``<target>``, so a target that exists is whole. A lock keeps two processes
from writing one part file.
"""

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from vadam_paper.data.errors import ChecksumMismatch, DownloadFailed

Progress = Callable[[int, int | None], None]  # bytes done, bytes in total (None if the server does not say)

CHUNK = 1 << 16
TIMEOUT_SECONDS = 30


def fetch(
    url: str, target: Path, *, sha256: str, checksum: Callable[[Path], str], progress: Progress | None = None
) -> None:
    """Make ``target`` hold the file at ``url``; raise `DownloadFailed` or `ChecksumMismatch`."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadFailed(f"no folder for it ({error}): set VADAM_CACHE to one that you can write to") from error
    part = target.with_name(target.name + ".part")
    with FileLock(target.with_name(target.name + ".lock")):
        if target.exists():
            return
        resumed = part.exists()
        _receive(url, part, progress)
        found = checksum(part)
        # The part may belong to another version of the file: download it from the start.
        if found != sha256 and resumed:
            part.unlink()
            _receive(url, part, progress)
            found = checksum(part)
        if found != sha256:
            part.unlink()
            raise ChecksumMismatch(
                f"{url} sent a file with sha256 {found}, but the published one has {sha256}. The address may serve "
                f"another version now, or your network a login page; nothing was kept. Put the right file at {target}."
            )
        os.replace(part, target)


def _receive(url: str, part: Path, progress: Progress | None) -> None:
    """Append the missing bytes of the file at ``url`` to ``part``."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "vadam"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing left to send: the checksum tells if the part is complete
            return
        raise DownloadFailed(f"{url} answered {error.code} {error.reason}: the file may have moved") from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise DownloadFailed(f"{url} cannot be reached ({reason}): check the network connection") from error
    with response:
        if response.status != 206:  # the server sends the whole file
            done = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        with part.open("ab" if done else "wb") as file:
            while chunk := _next_chunk(response, url, done, total):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
    if total is not None and done < total:
        raise DownloadFailed(_cut_short(url, done, total))


def _next_chunk(response: http.client.HTTPResponse, url: str, done: int, total: int | None) -> bytes:
    try:
        return response.read(CHUNK)
    except (http.client.HTTPException, OSError) as error:
        raise DownloadFailed(_cut_short(url, done, total)) from error


def _cut_short(url: str, done: int, total: int | None) -> str:
    in_all = "" if total is None else f" of {total}"
    return f"{url}: the connection ended after {done}{in_all} bytes. Run the same command again to resume it"
