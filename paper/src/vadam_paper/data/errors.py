"""Errors of data sets."""

import zlib
from zipfile import BadZipFile

UNREADABLE = (OSError, EOFError, ValueError, LookupError, RuntimeError, MemoryError, BadZipFile, zlib.error)
"""Errors that readers raise at a damaged file."""


class UnknownDataset(LookupError):
    """No data set has this name."""


class DataNotAvailable(RuntimeError):
    """The set is neither in a data folder, nor bundled with an installed package, nor could it be downloaded."""


class DownloadFailed(DataNotAvailable):
    """The public address did not deliver the file (not found, no network, connection lost)."""


class ChecksumMismatch(ValueError):
    """A file or package does not contain the published set, so results from it would not be comparable."""
