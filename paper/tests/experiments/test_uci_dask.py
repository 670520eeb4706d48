"""A sweep over a Dask cluster: a real scheduler and two workers, one of them killed, and the numbers of one process."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vadam_paper import data
from vadam_paper.experiments import ExperimentError, find
from vadam_paper.experiments.cluster import connect_workers, explain_cluster_failures
from vadam_paper.experiments.runner import run, run_folder
from vadam_paper.experiments.uci.config import Config, preset

Client = pytest.importorskip("distributed").Client
CancelledError = pytest.importorskip("distributed").CancelledError
CommClosedError = pytest.importorskip("distributed.comm").CommClosedError

UCI = find("uci")
CONFIG = replace(
    preset("smoke", "authors"), sets=("boston",), methods=("vadam", "bbvi"), trials=4, startup=2, folds=3, epochs=4
)
SECONDS_TO_START = 120


def rows(out: Path, config: Config = CONFIG) -> dict[str, dict]:
    lines = (run_folder(out, config) / "rows.jsonl").read_text().splitlines()
    return {row["cell"]: row["result"] for row in map(json.loads, lines)}


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start a single-threaded program of Dask whose output goes to a pipe."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def cluster(tmp_path: Path):
    """Yield the scheduler's address and its two workers."""
    scheduler = start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
    assert scheduler.stderr is not None
    address = next(found[0] for line in scheduler.stderr if (found := re.search(r"tcp://[\d.]+:\d+", line)))
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path / "dask"))
    workers = [start("dask_worker", address, *options) for _ in range(2)]
    yield address, workers
    for process in (*workers, scheduler):
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
    shutil.rmtree(tmp_path / "dask", ignore_errors=True)


def kill_at_work(address: str, victim: subprocess.Popen[str]) -> None:
    """Kill the worker as soon as it has a task."""
    with Client(address, timeout=SECONDS_TO_START, set_as_default=False) as client:
        mine = next(worker for worker, pid in client.run(os.getpid).items() if pid == victim.pid)
        while not client.processing()[mine]:
            time.sleep(0.01)
        os.kill(victim.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.skipif(not data.available("boston"), reason="the Boston data are not on this machine")
def test_one_of_two_workers_is_killed(tmp_path: Path, cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vadam_paper.experiments.uci.methods.ROWS_A_STACK", 640)  # many small pieces
    run(UCI, CONFIG, tmp_path / "local")
    address, workers = cluster
    with Client(address, timeout=SECONDS_TO_START) as client:
        client.wait_for_workers(2, timeout=SECONDS_TO_START)
    killer = threading.Thread(target=kill_at_work, args=(address, workers[0]), daemon=True)
    killer.start()
    with connect_workers(UCI, "dask", address) as count:
        assert count == 2
        run(UCI, CONFIG, tmp_path / "dask-run", workers=count)
    assert workers[0].wait(timeout=10) == -signal.SIGKILL
    assert workers[1].poll() is None
    assert rows(tmp_path / "dask-run") == rows(tmp_path / "local")


@pytest.mark.parametrize(
    ("name", "backend", "scheduler", "message"),
    [
        ("uci", "spark", None, "--backend must be one of local, dask, got 'spark'"),
        ("uci", "dask", None, "needs the address of a scheduler: --scheduler tcp://host:8786"),
        ("uci", "local", "tcp://a:1", "--scheduler tcp://a:1 needs --backend dask"),
        ("theory", "dask", "tcp://a:1", "theory is not a sweep"),
        ("uci", "dask", "nonsense://", "There is no Dask scheduler at nonsense://"),
    ],
)
def test_wrong_clusters(name: str, backend: str, scheduler: str | None, message: str) -> None:
    with pytest.raises(ExperimentError, match=message), connect_workers(find(name), backend, scheduler):
        pass


class Cluster:
    """A stub of ``distributed.Client``."""

    def __init__(self, **threads: int) -> None:
        self.threads = threads

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def nthreads(self) -> dict[str, int]:
        return self.threads


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        ({}, "has no workers: start some with dask worker tcp://a:1 --nthreads 1"),
        ({"b": 1, "c": 4}, "has 4 threads: start workers with dask worker tcp://a:1 --nthreads 1"),
    ],
)
def test_workers_have_one_thread_each(monkeypatch: pytest.MonkeyPatch, threads: dict[str, int], message: str) -> None:
    monkeypatch.setattr("distributed.Client", lambda scheduler, timeout: Cluster(**threads))
    with pytest.raises(ExperimentError, match=message), connect_workers(UCI, "dask", "tcp://a:1"):
        pass


@pytest.mark.parametrize("error", [CommClosedError("lost"), OSError("Timed out: lost"), CancelledError("lost")])
def test_a_failed_cluster_is_explained(error: Exception) -> None:
    told = pytest.raises(ExperimentError, match=r"at tcp://a:1 has failed .*lost\)\. Finished cells are kept")
    with told, explain_cluster_failures("tcp://a:1"):
        raise error


def test_a_full_disk_is_not_the_clusters() -> None:
    with pytest.raises(OSError, match="No space left"), explain_cluster_failures("tcp://a:1"):
        raise OSError(errno.ENOSPC, "No space left on device")
