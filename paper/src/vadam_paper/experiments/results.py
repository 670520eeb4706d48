"""Read recorded results for tables, figures and claims."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vadam_paper.experiments.contract import Experiment, ExperimentError
from vadam_paper.experiments.manifest import read_manifest
from vadam_paper.experiments.store import read_rows


@dataclass(frozen=True)
class Recorded:
    """The finished cells of one run."""

    preset: str
    protocol: str
    manifest: dict[str, Any]
    cells: Mapping[str, dict[str, Any]]
    commits: frozenset[str] = frozenset()
    """Commits that the rows name: of the code that made them, or with which they came into the history."""

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.manifest["config"]
        return config

    def __getitem__(self, cell: str) -> dict[str, Any]:
        return self.cells[cell]

    def __contains__(self, cell: str) -> bool:
        return cell in self.cells


@contextmanager
def readable(experiment: Experiment) -> Iterator[None]:
    """Name the experiment if its rows do not hold what its tables, figures and judges read."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ExperimentError(
            f"The recorded results of {experiment.name} cannot be read ({error!r}): a row may be damaged. "
            "Delete its rows.jsonl, or start over with --no-resume."
        ) from error


class Results(dict[str, Recorded]):
    """The best run of each protocol, by the protocol's name: ``results["authors"]["vadam-M1"]["kl"]``.

    ``others`` are the recorded runs of this version that are not the best ones: of other presets, or not complete.
    """

    def __init__(self, best: Mapping[str, Recorded] | None = None, *, others: Sequence[Recorded] = ()) -> None:
        super().__init__(best or {})
        self.others = tuple(others)

    @property
    def runs(self) -> tuple[Recorded, ...]:
        """Return all recorded runs."""
        return (*self.values(), *self.others)


def read_results(root: Path, experiment: Experiment) -> Results:
    """Return, for each protocol, the complete run of the longest preset: paper before quick before smoke.

    For a sweep, return the run with the most finished cells among the presets that count as evidence, so that an
    incomplete longer run does not hide a shorter one. A run recorded by another version, with another configuration or
    other cells, is left out.
    """
    best, others = {}, []
    for protocol in experiment.protocols if experiment.runnable else ():
        folders = [root / experiment.name / f"{preset}-{protocol}" for preset in experiment.presets]
        found = [run for run in map(read_run, folders) if run is not None and _is_of_this_version(run, experiment)]
        usable = [run for run in found if experiment.sweep or _is_complete(run, experiment)]
        if usable:
            best[protocol] = max(usable, key=lambda run: _rank(run, experiment))
        others += [run for run in found if run is not best.get(protocol)]
    return Results(best, others=others)


def _rank(run: Recorded, experiment: Experiment) -> tuple[bool, int, int]:
    cells = len(run.cells) if experiment.sweep else 0
    return run.preset in experiment.judging_presets, cells, experiment.presets.index(run.preset)


def read_run(folder: Path) -> Recorded | None:
    """Read one run, or return None if there is none."""
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    rows = read_rows(folder / "rows.jsonl", manifest["config_hash"])
    cells = {cell: row["result"] for cell, row in rows.items()}
    named = frozenset(row.get("commit") or row.get("landed") or "unknown" for row in rows.values())
    return Recorded(manifest["preset"], manifest["protocol"], manifest, cells, named)


def _is_of_this_version(run: Recorded, experiment: Experiment) -> bool:
    return bool(run.cells) and run.manifest["config_hash"] == experiment.config(run.preset, run.protocol).fingerprint


def _is_complete(run: Recorded, experiment: Experiment) -> bool:
    return set(run.cells) >= set(experiment.cells(experiment.config(run.preset, run.protocol)))
