"""Recorded results, as tables, figures and claims read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vadam.experiments.contract import PRESETS, Experiment
from vadam.experiments.manifest import read_manifest
from vadam.experiments.store import read_rows


@dataclass(frozen=True)
class Recorded:
    """The finished cells of one run."""

    preset: str
    protocol: str
    manifest: dict[str, Any]
    cells: Mapping[str, dict[str, Any]]

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.manifest["config"]
        return config

    @property
    def complete(self) -> bool:
        return len(self.cells) == int(self.manifest["cells"])

    def __getitem__(self, cell: str) -> dict[str, Any]:
        return self.cells[cell]

    def __contains__(self, cell: str) -> bool:
        return cell in self.cells


class Results(dict[str, Recorded]):
    """The best complete run of each protocol, by the protocol's name: ``results["authors"]["vadam-M1"]["kl"]``."""

    @property
    def any(self) -> Recorded | None:
        return next(iter(self.values()), None)


def read_results(root: Path, experiment: Experiment) -> Results:
    """For each protocol the fullest preset that has run to its end: paper before quick before smoke."""
    best = Results()
    for protocol in experiment.protocols:
        for preset in reversed(PRESETS):
            run = read_run(root / experiment.name / f"{preset}-{protocol}")
            if run is not None and run.complete:
                best[protocol] = run
                break
    return best


def read_run(folder: Path) -> Recorded | None:
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    rows = read_rows(folder / "rows.jsonl", manifest["config_hash"])
    return Recorded(
        manifest["preset"], manifest["protocol"], manifest, {cell: row["result"] for cell, row in rows.items()}
    )
