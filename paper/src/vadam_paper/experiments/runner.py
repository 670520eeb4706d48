"""Run the cells of an experiment: skip finished ones, and write each new one to disk before the next starts."""

import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import torch

from vadam_paper.experiments.config import Config
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.contract import Experiment, ExperimentError
from vadam_paper.experiments.manifest import commit, read_manifest, write_manifest
from vadam_paper.experiments.store import Row, Store
from vadam_paper.experiments.timing import Duration

Progress = Callable[[float, str], None]
"""Called with the total fraction that is done and the key of the current cell."""


def run_folder(out: Path, config: Config) -> Path:
    """Return the folder of a run's results."""
    return out / config.experiment / f"{config.preset}-{config.protocol}"


def run(
    experiment: Experiment,
    config: Config,
    out: Path,
    *,
    data: Path | None = None,
    jobs: int = 1,
    workers: int = 1,
    resume: bool = True,
    allow_changes: bool = False,
    progress: Progress = lambda fraction, key: None,
) -> dict[str, Any]:
    """Run the missing cells and return the manifest; an interrupted run continues at the next call.

    Results that count as evidence are recorded from changed files only with ``allow_changes``.
    ``jobs`` processes take a cell each. With ``workers`` above 1 the cells run in turn, each spread over that many.
    """
    if jobs < 1:
        raise ExperimentError(f"--jobs must be at least 1, got {jobs}.")
    folder = run_folder(out, config)
    costs = experiment.cells(config)
    with Store(folder, config.fingerprint) as store:
        done = store.rows() if resume else {}
        tracker = _Tracker(costs, done, progress)
        todo = [key for key in costs if key not in done]
        if not experiment.sweep:
            todo.sort(key=lambda key: -costs[key])
        recorded = None if todo else read_manifest(folder)
        if recorded is not None and _says_finished(recorded, config):
            return recorded
        if todo and config.preset in experiment.judging_presets and not allow_changes:
            _refuse_changed_files(config.preset)
        if not resume:
            store.clear()
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        write_manifest(folder, config, done, len(costs), jobs=jobs, running=True)
        in_turn = jobs == 1 or workers > 1 or len(todo) < 2
        finished = partial(_serially, workers) if in_turn else _in_processes(min(jobs, len(todo)))
        try:
            for key, result, elapsed in finished(experiment, config, todo, folder, data, tracker.moved):
                done[key] = store.append(key, result, elapsed, commit())
                CellContext(config, key, folder).finish()
                tracker.moved(key, 1.0)
                write_manifest(folder, config, done, len(costs), jobs=jobs, running=True)
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        finally:
            manifest = write_manifest(folder, config, done, len(costs), jobs=jobs, running=False)
        return manifest


def _says_finished(manifest: dict[str, Any], config: Config) -> bool:
    """Return True if the manifest is complete for this configuration.

    A complete manifest keeps the commit that made the rows. One left by a killed run is written again.
    """
    return manifest["config_hash"] == config.fingerprint and "running" not in manifest


def _refuse_changed_files(preset: str) -> None:
    """Raise ExperimentError if the running code differs from the commit that a row would name."""
    if (commit() or "").endswith("+"):
        raise ExperimentError(
            f"Files of the package differ from the commit that rows of the preset {preset} would name. Commit them first, "
            "or record them anyway with --allow-changes: the rows then name the commit with a +."
        )


class _Tracker:
    """Combine the progress of single cells, weighted by their expected cost."""

    def __init__(self, costs: dict[str, float], done: dict[str, Row], progress: Progress) -> None:
        self.costs = costs
        self.fractions = {key: float(key in done) for key in costs}
        self.progress = progress

    def moved(self, key: str, fraction: float) -> None:
        self.fractions[key] = fraction
        whole = sum(self.costs.values())
        self.progress(sum(cost * self.fractions[key] for key, cost in self.costs.items()) / whole, key)


Finished = Iterator[tuple[str, dict[str, Any], Duration]]
Moved = Callable[[str, float], None]


def _serially(
    workers: int, experiment: Experiment, config: Config, todo: list[str], folder: Path, data: Path | None, moved: Moved
) -> Finished:
    for key in todo:
        with _one_thread():
            context = CellContext(config, key, folder, data=data, report=partial(moved, key), workers=workers)
            result = experiment.run_cell(config, key, context)
        yield key, result, context.elapsed()


def _in_processes(jobs: int) -> Callable[..., Finished]:
    """Return a function that runs cells in single-threaded processes and yields what each returned.

    For small models two processes beat one with two threads.
    """

    def finished(
        experiment: Experiment, config: Config, todo: list[str], folder: Path, data: Path | None, moved: Moved
    ) -> Finished:
        spawn = multiprocessing.get_context("spawn")
        reports: SimpleQueue[tuple[str, float] | None] = spawn.SimpleQueue()
        listener = threading.Thread(target=_listen, args=(reports, moved), daemon=True)
        listener.start()
        pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_start_worker, initargs=(reports,))
        try:
            pending: set[Future[tuple[str, dict[str, Any], Duration]]] = {
                pool.submit(_work_on, experiment, config, key, folder, data) for key in todo
            }
            while pending:
                ready, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
        except BrokenProcessPool as error:
            raise ExperimentError(
                "A process of the run was killed, perhaps because memory was short. Finished cells are kept: run the same command "
                "again, if memory is short with fewer --jobs."
            ) from error
        except BaseException:
            for process in list(getattr(pool, "_processes", {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            reports.put(None)
            listener.join(timeout=5)

    return finished


def _listen(reports: "SimpleQueue[tuple[str, float] | None]", moved: Moved) -> None:
    while (report := reports.get()) is not None:
        moved(*report)


def _start_worker(reports: "SimpleQueue[tuple[str, float] | None]") -> None:
    global _reports
    _reports = reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: BaseProcess) -> None:
    """Exit when the parent dies; otherwise a worker would outlive a killed parent."""
    parent.join()
    os._exit(1)


def _work_on(
    experiment: Experiment, config: Config, key: str, folder: Path, data: Path | None
) -> tuple[str, dict[str, Any], Duration]:
    def report(fraction: float) -> None:
        _reports.put((key, fraction))

    context = CellContext(config, key, folder, data=data, report=report, parallel=True)
    return key, experiment.run_cell(config, key, context), context.elapsed()


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_reports: "SimpleQueue[tuple[str, float] | None]"
