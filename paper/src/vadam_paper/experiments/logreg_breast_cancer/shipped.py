"""The boxes of the published Fig. 2c: medians and quartiles over the restarts."""

from pathlib import Path

from vadam_paper.experiments import shipped
from vadam_paper.experiments.results import Results

PUBLISHED = shipped.read(Path(__file__).parent)
CLAIMS = ("breast-m", "breast-m1", "breast-different")
"""Claims that these numbers can speak about."""


def runs(claim: str) -> dict[str, Results]:
    """Return what the authors published about a claim, by the name of the run."""
    if claim not in CLAIMS:
        return {}
    return {"boxes": shipped.results(PUBLISHED["cells"], PUBLISHED.get("config"))}
