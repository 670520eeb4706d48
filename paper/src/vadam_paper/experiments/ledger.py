"""The claims ledger: every statement of the paper, the measured evidence, a verdict."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.results import Results, read_results, readable
from vadam_paper.experiments.verdicts import Evidence, Verdict

__all__ = ["Claim", "Entry", "Evidence", "Verdict", "entries", "ledger"]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper; ``judge`` returns the evidence from recorded results; without it the claim is not run."""

    id: str
    where: str
    says: str
    judge: Callable[[Results], Evidence] | None = None

    @property
    def beyond_paper(self) -> bool:
        """Return True for an aim of this project instead of a claim of the paper: ``where`` starts with "Aim of"."""
        return self.where.startswith("Aim of ")


@dataclass(frozen=True)
class Entry:
    """One row of the ledger."""

    experiment: str
    artefact: str
    claim: Claim
    evidence: Evidence
    shipped: dict[str, Evidence] = field(default_factory=dict)
    """Evidence from the data that the authors published, by the same judge, run by run."""


def ledger(root: Path, experiments: tuple[Experiment, ...]) -> list[Entry]:
    """Return the rows of all experiments."""
    return [entry for experiment in experiments for entry in entries(experiment, read_results(root, experiment))]


def entries(experiment: Experiment, results: Results) -> list[Entry]:
    """Return the rows of one experiment."""
    with readable(experiment):
        return [
            Entry(
                experiment.name,
                experiment.artefact,
                claim,
                _judge(claim, results, experiment),
                _judge_shipped(claim, experiment),
            )
            for claim in experiment.claims
        ]


def _judge(claim: Claim, results: Results, experiment: Experiment) -> Evidence:
    """Return the evidence for a claim.

    Claims are about the paper's protocol: for a shorter preset the verdict is "not run". A sweep is judged by its
    recorded part; its judges say what is missing.
    """
    if claim.judge is None or not experiment.runnable:
        return Evidence(Verdict.NOT_RUN, "This artefact has no recorded run yet.")
    judged = {protocol: run for protocol, run in results.items() if run.preset in experiment.judging_presets}
    full = Results(judged, others=results.others)
    missing = [protocol for protocol in experiment.protocols if protocol not in full]
    if missing and not (experiment.sweep and full):
        which = " and ".join(missing)
        return Evidence(Verdict.NOT_RUN, f"Run it: vadam reproduce {experiment.name} (missing: {which} protocol).")
    return claim.judge(full)


def _judge_shipped(claim: Claim, experiment: Experiment) -> dict[str, Evidence]:
    """Return the evidence in the authors' published data; empty where they hold nothing about the claim."""
    judge = claim.judge
    if judge is None or not experiment.has("shipped"):
        return {}
    runs: dict[str, Results] = experiment.part("shipped").runs(claim.id)
    return {label: judge(results) for label, results in runs.items()}
