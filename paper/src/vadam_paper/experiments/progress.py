"""Say how far recorded runs are, from their rows."""

from typing import NamedTuple

from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.milestones import parse_key
from vadam_paper.experiments.results import Recorded


class Share(NamedTuple):
    """Finished cells among the planned ones."""

    done: int
    planned: int

    def __str__(self) -> str:
        return f"all {self.planned:,}" if self.done == self.planned else f"{self.done:,} of {self.planned:,}"


class Progress(NamedTuple):
    """Progress of a run: its finished cells, and those of each milestone for runs that have milestones."""

    preset: str
    protocol: str
    cells: Share
    milestones: dict[str, Share]
    hours: float
    hours_left: float
    """Processor hours of the missing cells, at the price of the finished ones."""

    def __str__(self) -> str:
        parts = [f"{share} runs to {end}" for end, share in self.milestones.items()]
        how_far = ", ".join(parts) if parts else f"{self.cells} cells"
        left = f", {_time(self.hours_left)} to go at that price" if self.hours_left else ""
        return f"preset {self.preset}, protocol {self.protocol}: {how_far}; {_time(self.hours)} of processor time{left}"


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"


def progress(experiment: Experiment, run: Recorded) -> Progress:
    """Return how far a run is."""
    config = experiment.config(run.preset, run.protocol)
    costs = experiment.cells(config)
    done = [cell for cell in costs if cell in run]
    ends: dict[int, list[bool]] = {}
    for cell in costs if experiment.milestone_unit else ():
        ends.setdefault(parse_key(cell)[2], []).append(cell in run)
    hours, paid = run.manifest["cpu_seconds"] / 3600, sum(costs[cell] for cell in done)
    return Progress(
        run.preset,
        run.protocol,
        Share(len(done), len(costs)),
        {f"{end:,} {experiment.milestone_unit}": Share(sum(found), len(found)) for end, found in sorted(ends.items())},
        hours,
        hours * (sum(costs.values()) / paid - 1) if paid else 0.0,
    )
