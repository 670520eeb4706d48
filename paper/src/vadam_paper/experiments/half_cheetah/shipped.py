"""The test returns that the authors published: two runs of the same five seeds, of which the paper reports the first."""

from pathlib import Path

from vadam_paper.experiments import shipped
from vadam_paper.experiments.results import Results

PUBLISHED = shipped.read(Path(__file__).parent)
EARLY = [10_000 * k for k in range(1, 11)]
LATE = [10_000 * k for k in range(251, 301)]
"""Blocks of 10,000 steps that end there have the last 50 tests."""
WITHOUT = ("rl-variance",)
"""Claims about which the returns say nothing."""


def runs(claim: str) -> dict[str, Results]:
    """Return the published trials, by the name of the run."""
    if claim in WITHOUT:
        return {}
    return {
        label: shipped.results({f"{trial}-{LATE[-1]}": _trial(*returns) for trial, returns in trials.items()})
        for label, trials in PUBLISHED["runs"].items()
    }


def _trial(early: list[float], late: list[float]) -> dict[str, list[float]]:
    return {"step": [*EARLY, *LATE], "mean": [*early, *late]}
