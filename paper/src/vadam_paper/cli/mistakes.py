"""Mistakes of the caller, told in words."""

from collections.abc import Iterator
from contextlib import contextmanager

from vadam.cli import speech


@contextmanager
def in_words(as_json: bool, go_on: str | None = None) -> Iterator[None]:
    """Turn errors of experiments and data into one line and an exit code, as ``vadam.cli.speech.in_words`` does."""
    from vadam_paper.data import ChecksumMismatch, DataNotAvailable, UnknownDataset
    from vadam_paper.experiments import ExperimentError

    mistakes = (speech.CommandError, ExperimentError, DataNotAvailable, ChecksumMismatch, UnknownDataset)
    with speech.in_words(as_json, go_on, mistakes):
        yield
