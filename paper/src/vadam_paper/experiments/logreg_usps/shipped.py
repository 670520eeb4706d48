"""The boxes of the published Fig. 2b: medians and quartiles over the splits."""

from pathlib import Path

from vadam_paper.experiments import shipped
from vadam_paper.experiments.results import Results

PUBLISHED = shipped.read(Path(__file__).parent)
CLAIMS = ("usps-comparable", "usps-elbo", "usps-variance", "usps-kl")
"""Claims that these numbers can speak about."""


def runs(claim: str) -> dict[str, Results]:
    """Return what the authors published about a claim, by the name of the run."""
    if claim not in CLAIMS:
        return {}
    return {"boxes": shipped.results(PUBLISHED["cells"], PUBLISHED.get("config"))}
