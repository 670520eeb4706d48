"""Where the pieces of a cell are computed: in this process, or on the workers of a Dask cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vadam_paper.experiments.contract import Experiment, ExperimentError

BACKENDS = ("local", "dask")
SECONDS_TO_CONNECT = 10


@contextmanager
def connect_workers(experiment: Experiment, backend: str, scheduler: str | None) -> Iterator[int]:
    """Yields how many workers share a cell; inside the block joblib sends their pieces there.

    Only the sweep's process writes: a worker that dies costs the piece it was at, which another takes over.
    """
    if backend not in BACKENDS:
        raise ExperimentError(f"--backend is one of {', '.join(BACKENDS)}, not {backend!r}.")
    if backend == "local":
        if scheduler is not None:
            raise ExperimentError(f"--scheduler {scheduler} goes with --backend dask.")
        yield 1
        return
    if not experiment.sweep:
        raise ExperimentError(f"{experiment.name} is not a sweep: it runs here, with --jobs processes.")
    if scheduler is None:
        raise ExperimentError("--backend dask needs the address of a scheduler: --scheduler tcp://host:8786.")
    with _client(scheduler) as client:
        start = f"dask worker {scheduler} --nthreads 1"
        threads = client.nthreads()
        if not threads:
            raise ExperimentError(f"The scheduler at {scheduler} has no workers: start some with {start}.")
        if max(threads.values()) > 1:  # torch's own threads are counted by process: the numbers would depend on it
            raise ExperimentError(
                f"A worker at {scheduler} has {max(threads.values())} threads: start workers with {start}."
            )
        import joblib

        with joblib.parallel_config(backend="dask"), _explain_cluster_failures(scheduler):
            yield max(2, len(threads))  # one alone would be this process


@contextmanager
def _explain_cluster_failures(scheduler: str) -> Iterator[None]:
    from distributed import CancelledError, KilledWorker

    try:
        yield
    except (CancelledError, KilledWorker, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # this machine's: a full disk, say
            raise
        raise ExperimentError(
            f"The cluster at {scheduler} has failed ({type(error).__name__}: {error}). What is done is kept: "
            "see to it, and go on with the same command."
        ) from error


def _client(scheduler: str) -> Any:
    try:
        import joblib  # noqa: F401

        from distributed import Client
    except ImportError as error:
        raise ExperimentError('--backend dask needs joblib and Dask: pip install "vadam[sweep]".') from error
    try:
        return Client(scheduler, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ExperimentError(f"There is no Dask scheduler at {scheduler}: {error}.") from error
