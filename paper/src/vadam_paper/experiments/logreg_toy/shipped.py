"""The ellipses of the published Fig. 2a: one run of each method."""

from pathlib import Path

from vadam_paper.experiments import shipped
from vadam_paper.experiments.results import Results

PUBLISHED = shipped.read(Path(__file__).parent)
CLAIMS = ("toy-differ",)
"""Claims that these numbers can speak about."""


def runs(claim: str) -> dict[str, Results]:
    """Return what the authors published about a claim, by the name of the run."""
    if claim not in CLAIMS:
        return {}
    return {"one run": shipped.results(PUBLISHED["cells"], PUBLISHED.get("config"))}
