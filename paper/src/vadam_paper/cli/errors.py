"""Report errors of experiments and data sets on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager

from vadam.cli import errors


@contextmanager
def exit_on_error(as_json: bool, resume_command: str | None = None) -> Iterator[None]:
    """Print an error as one line and exit, as ``vadam.cli.errors.exit_on_error`` does, for experiments and data too."""
    from vadam_paper.data import ChecksumMismatch, DataNotAvailable, UnknownDataset
    from vadam_paper.experiments import ExperimentError

    user_errors = (errors.CommandError, ExperimentError, DataNotAvailable, ChecksumMismatch, UnknownDataset)
    with errors.exit_on_error(as_json, resume_command, user_errors):
        yield
