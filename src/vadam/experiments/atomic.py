"""Write files that are either the old one or the new one, never a half; missing folders are created."""

from pathlib import Path

from vadam import atomic


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(path, content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())
