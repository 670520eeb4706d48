"""The context of a running cell: the data folder, progress reports, checkpoints."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from vadam import atomic
from vadam_paper.experiments.config import Config
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.store import read_rows
from vadam_paper.experiments.timing import Duration, Stopwatch

SECONDS_BETWEEN_CHECKPOINTS = 5.0
SECONDS_BETWEEN_LOOKS = 1.0


class CellContext:
    """The data folder, progress report and checkpoint of a running cell.

    Its checkpoint is one safetensors file, replaced atomically, and removed once the cell's row is on disk.
    """

    def __init__(
        self,
        config: Config,
        key: str,
        folder: Path,
        *,
        data: Path | None = None,
        report: Callable[[float], None] = lambda fraction: None,
        workers: int = 1,
        parallel: bool = False,
    ) -> None:
        self.data = data
        self.report = report
        self.workers = workers
        self._parallel = parallel
        self._config, self._folder = config, folder
        self._fingerprint = config.fingerprint
        self._path = checkpoint_path(folder, key)
        self.journal = self._path.with_name(f"{key}.{self._fingerprint}.jsonl")
        """Path of the cell's own log under this configuration; it is removed once the cell's row is on disk."""
        self._last = time.monotonic()
        self._clock = Stopwatch()

    def elapsed(self) -> Duration:
        """Return the time of all attempts, as far as checkpoints were kept."""
        return self._clock.elapsed()

    def checkpoint(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        """Write a checkpoint, unless one was written a moment ago."""
        if time.monotonic() - self._last < SECONDS_BETWEEN_CHECKPOINTS:
            return
        self.write(tensors, meta)

    def write(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        """Write a checkpoint now."""
        header = {"meta": json.dumps(meta), "config": self._fingerprint, "took": json.dumps(self.elapsed())}
        atomic.write_bytes(self._path, save({name: tensor.contiguous() for name, tensor in tensors.items()}, header))
        self._last = time.monotonic()

    def restore(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the last checkpoint, or None if there is none."""
        if not self._path.exists():
            return None
        try:
            with safe_open(self._path, framework="pt") as file:
                header = file.metadata()
                if header["config"] != self._fingerprint:
                    return None
                self._clock.before = Duration(*json.loads(header["took"]))
                return {name: file.get_tensor(name) for name in file.keys()}, json.loads(header["meta"])  # noqa: SIM118
        except (SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise ExperimentError(
                f"The checkpoint {self._path} is damaged ({error}). Delete it to start its cell from the beginning."
            ) from error

    def shared_checkpoint(self, key: str) -> "CellContext":
        """Return a context whose checkpoint outlives this cell, so that a later cell can resume from it."""
        return CellContext(self._config, key, self._folder)

    def result_of(self, key: str) -> dict[str, Any]:
        """Return the result of an earlier cell of this run; if other processes run cells, wait for it."""
        while key not in (rows := read_rows(self._folder / "rows.jsonl", self._fingerprint)):
            if not self._parallel:
                raise ExperimentError(f"The cell {key} has no result yet, and this one depends on it: run it first.")
            time.sleep(SECONDS_BETWEEN_LOOKS)
        result: dict[str, Any] = rows[key]["result"]
        return result

    def finish(self) -> None:
        self._path.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)


def checkpoint_path(folder: Path, key: str) -> Path:
    return folder / "checkpoints" / f"{key}.safetensors"
