"""Checksums of a file's bytes, of a text file's fields, and of a table's values.

The checksum of the values is the same whichever form (archive, text, package) a set was read from.
"""

import hashlib
from pathlib import Path

import numpy as np

from vadam_paper.data.table import Table, Text


def of_bytes(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_fields(path: Path) -> str:
    """Return the checksum of a text's fields, with one blank between them and LF after each line that has any.

    Copies of one text set differ in CRLF, trailing blanks and empty lines (git converts line ends on some systems).
    """
    lines = (b" ".join(line.split()) + b"\n" for line in path.read_bytes().splitlines() if line.strip())
    return hashlib.sha256(b"".join(lines)).hexdigest()


def of_values(content: Table | Text) -> str:
    """Return the checksum of X then y as little-endian float64 in row order, or of the bytes of a text."""
    if isinstance(content, Text):
        return hashlib.sha256(content.content).hexdigest()
    values = hashlib.sha256(np.ascontiguousarray(content.X, dtype="<f8").tobytes())
    values.update(np.ascontiguousarray(content.y, dtype="<f8").tobytes())
    return values.hexdigest()
