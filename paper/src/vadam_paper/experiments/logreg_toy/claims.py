"""The paper's claims about Fig. 2a."""

import numpy as np

from vadam_paper.experiments.intervals import interval
from vadam_paper.experiments.ledger import Claim, Evidence
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import below, differs, every

NEGLIGIBLE = 0.1
"""A distance below this fraction of MF-Exact's standard deviation, or of the other methods' distances, counts as zero."""


def _both_differ(results: Results) -> Evidence:
    run = results["authors"]
    exact, margin = run["mf-exact"]["mean"][0], NEGLIGIBLE * run["mf-exact"]["stddev"][0]
    found = {name: interval([mean[0] for mean in run[cell]["mean"]]) for name, cell in METHODS.items()}
    away = [differs(value.shifted(-exact), margin) for value in found.values()]
    ends = "; ".join(f"{name} {value}" for name, value in found.items())
    single = " One run has no interval." if len(run["vadam"]["mean"]) == 1 else ""
    text = f"Mean θ₁ with 95 % interval over runs: {ends}; MF-Exact {exact:.2f}; a distance of {margin:.2f} counts as none.{single}"
    return Evidence(every(*away), text, "A second run of each method." if single else "")


def _because_of_the_hessian(results: Results) -> Evidence:
    run = results["authors"]
    von = interval(run["von-10"]["kl"])
    others = {name: float(np.mean(run[cell]["kl"])) for name, cell in METHODS.items()}
    ends = ", ".join(f"{name} {value:.2f}" for name, value in others.items())
    text = f"Symmetric KL to MF-Exact: {ends}; the same program with the exact Hessian (VON) {von}."
    return Evidence(below(von, NEGLIGIBLE * min(others.values())), text)


METHODS = {"Vadam": "vadam", "VOGN-1": "vogn-1"}

CLAIMS = (
    Claim("toy-differ", "§6.1", "Both Vadam and VOGN-1 find approximations that differ from MF-Exact.", _both_differ),
    Claim(
        "toy-hessian",
        "§6.1",
        "The difference is clearly due to the type of Hessian approximation they use.",
        _because_of_the_hessian,
    ),
)
