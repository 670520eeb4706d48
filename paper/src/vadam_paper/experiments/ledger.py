"""The claims ledger: every claim the paper makes in words, the evidence measured for it, a verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.results import Results, read_results


class Verdict(StrEnum):
    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Evidence:
    verdict: Verdict
    text: str


def judged(supported: bool, text: str) -> Evidence:
    return Evidence(Verdict.SUPPORTED if supported else Verdict.NOT_SUPPORTED, text)


@dataclass(frozen=True)
class Claim:
    """``judge`` reads recorded results and says what they show; without it the claim is declared and not run."""

    id: str
    where: str
    says: str
    judge: Callable[[Results], Evidence] | None = None


@dataclass(frozen=True)
class Entry:
    """One row of the ledger."""

    experiment: str
    artefact: str
    claim: Claim
    evidence: Evidence


def ledger(root: Path, experiments: tuple[Experiment, ...]) -> list[Entry]:
    return [entry for experiment in experiments for entry in entries(experiment, read_results(root, experiment))]


def entries(experiment: Experiment, results: Results) -> list[Entry]:
    return [
        Entry(experiment.name, experiment.artefact, claim, _judge(claim, results, experiment))
        for claim in experiment.claims
    ]


def _judge(claim: Claim, results: Results, experiment: Experiment) -> Evidence:
    """The paper's claims are about the paper's protocol: a shorter preset leaves the verdict at not run.

    A sweep is judged by what there is of it: its judges say themselves what is missing.
    """
    if claim.judge is None or not experiment.runnable:
        return Evidence(Verdict.NOT_RUN, "This artefact has no recorded run yet.")
    full = Results({protocol: run for protocol, run in results.items() if run.preset in experiment.judging_presets})
    missing = [protocol for protocol in experiment.protocols if protocol not in full]
    if missing and not (experiment.sweep and full):
        which = " and ".join(missing)
        return Evidence(Verdict.NOT_RUN, f"Run it: vadam reproduce {experiment.name} (missing: {which} protocol).")
    return claim.judge(full)
