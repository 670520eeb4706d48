"""Run the tasks of a cell in this process, or on the workers of a Dask cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vadam_paper.experiments.contract import Experiment, ExperimentError

BACKENDS = ("local", "dask")
SECONDS_TO_CONNECT = 10


@contextmanager
def connect_workers(experiment: Experiment, backend: str, scheduler: str | None) -> Iterator[int]:
    """Yield the number of workers that share a cell; inside the block joblib sends tasks to them.

    Only this process writes results. If a worker dies, another one repeats its task.
    """
    if backend not in BACKENDS:
        raise ExperimentError(f"--backend must be one of {', '.join(BACKENDS)}, got {backend!r}.")
    if backend == "local":
        if scheduler is not None:
            raise ExperimentError(f"--scheduler {scheduler} needs --backend dask.")
        yield 1
        return
    if not experiment.sweep:
        raise ExperimentError(f"{experiment.name} is not a sweep and runs on this machine only: use --jobs.")
    if scheduler is None:
        raise ExperimentError("--backend dask needs the address of a scheduler: --scheduler tcp://host:8786.")
    with _client(scheduler) as client:
        start = f"dask worker {scheduler} --nthreads 1"
        threads = client.nthreads()
        if not threads:
            raise ExperimentError(f"The scheduler at {scheduler} has no workers: start some with {start}.")
        if max(threads.values()) > 1:  # torch counts its threads per process, and the numbers would depend on it
            raise ExperimentError(
                f"A worker at {scheduler} has {max(threads.values())} threads: start workers with {start}."
            )
        import joblib

        with joblib.parallel_config(backend="dask"), explain_cluster_failures(scheduler):
            yield max(2, len(threads))  # joblib runs a single worker in this process


@contextmanager
def explain_cluster_failures(scheduler: str) -> Iterator[None]:
    """Turn errors of the cluster into an ExperimentError; errors of this machine, such as a full disk, pass."""
    from distributed import CancelledError, KilledWorker

    try:
        yield
    except (CancelledError, KilledWorker, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ExperimentError(
            f"The cluster at {scheduler} has failed ({type(error).__name__}: {error}). Finished cells are kept: "
            "repair it, and continue with the same command."
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
        raise ExperimentError(
            f"There is no Dask scheduler at {scheduler} ({error}): start one with dask scheduler, or correct the address."
        ) from error
