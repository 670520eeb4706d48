"""Define what an experiment is, and find experiments by name."""

import difflib
import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vadam_paper.experiments.config import Config
    from vadam_paper.experiments.ledger import Claim
    from vadam_paper.experiments.results import Results
    from vadam_paper.experiments.tables import Table

PRESETS = ("smoke", "quick", "paper")
PROTOCOLS = ("authors", "text")


class ExperimentError(Exception):
    """An error that the user can fix; its text says how."""


@dataclass(frozen=True)
class Experiment:
    """An experiment: its name, its artefact in the paper, and how it runs."""

    name: str
    artefact: str
    title: str
    package: str
    protocols: tuple[str, ...] = PROTOCOLS
    aliases: tuple[str, ...] = ()
    order: int = 0
    sweep: bool = False
    """True for a long run of many similar cells: they run in the order of ``cells``; incomplete results are shown too."""
    presets: tuple[str, ...] = PRESETS
    """Presets from the shortest to the longest."""
    judged_from: str = "paper"
    """The shortest preset whose results count as evidence for claims."""
    milestone_unit: str = ""
    """Unit of the milestones at which long runs are recorded, e.g. "epochs"; empty for cells without milestones."""

    def has(self, module: str) -> bool:
        return importlib.util.find_spec(f"{self.package}.{module}") is not None

    def part(self, module: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{module}")

    @property
    def judging_presets(self) -> tuple[str, ...]:
        """Return the presets whose results count as evidence for claims."""
        return self.presets[self.presets.index(self.judged_from) :]

    @property
    def runnable(self) -> bool:
        return self.has("run")

    @property
    def folder(self) -> Path:
        spec = importlib.util.find_spec(self.package)
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin).parent

    @property
    def readme(self) -> str:
        path = self.folder / "README.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def claims(self) -> "tuple[Claim, ...]":
        return tuple(self.part("claims").CLAIMS)

    def config(self, preset: str, protocol: str) -> "Config":
        if not self.runnable:
            raise ExperimentError(f"{self.name} cannot be run in this version of vadam: only its claims are declared.")
        _check_choice(f"preset of {self.name}", preset, self.presets)
        _check_choice(f"protocol of {self.name}", protocol, self.protocols)
        config: Config = self.part("config").preset(preset, protocol)
        return config

    def cells(self, config: "Config") -> dict[str, float]:
        cells: dict[str, float] = self.part("run").cells(config)
        return cells

    def tables(self, results: "Results") -> "list[Table]":
        """Return the paper's table and all tables of ``more_tables``."""
        part = self.part("table")
        return [part.table(results), *(part.more_tables(results) if hasattr(part, "more_tables") else ())]

    def notes(self, results: "Results") -> list[str]:
        found: list[str] = self.part("table").notes(results)
        return found

    def run_cell(self, config: "Config", key: str, context: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.part("run").run_cell(config, key, context)
        return result


def experiments() -> tuple[Experiment, ...]:
    """Return all experiments of this version, in the order of the paper."""
    package = importlib.import_module("vadam_paper.experiments")
    found = []
    for module in pkgutil.iter_modules(package.__path__, "vadam_paper.experiments."):
        if module.ispkg:
            experiment = getattr(importlib.import_module(module.name), "EXPERIMENT", None)
            if experiment is not None:
                found.append(experiment)
    return tuple(sorted(found, key=lambda experiment: (experiment.order, experiment.name)))


def find(name: str) -> Experiment:
    """Return the experiment with that name or alias; the error for an unknown name suggests the nearest one."""
    known = {known_as: e for e in experiments() for known_as in (e.name, *e.aliases)}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ExperimentError(f"There is no experiment {name!r}.{hint} Known: {', '.join(sorted(known))}.")


def _check_choice(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ExperimentError(f"The {what} must be one of {', '.join(allowed)}, got {value!r}.")
