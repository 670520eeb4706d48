"""The paper's claims about Fig. 2b."""

from collections.abc import Callable

import numpy as np

from vadam_paper.experiments.intervals import (
    Sample,
    Summary,
    compared,
    difference,
    interval,
    pitman_morgan,
    ratio,
    ratio_of_boxes,
)
from vadam_paper.experiments.ledger import Claim, Evidence
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import above, below, every, within

COMPARABLE = 0.15
"""Largest relative difference of means that count as comparable; the figure's own differences are within 10 %."""
MOSTLY = 0.5
"""Share of a difference that a cause must explain."""
NEAR = 2.0
"""Symmetric KL in nats that counts as near to MF-Exact."""


def _comparable(results: Results) -> Evidence:
    run = results["authors"]
    ratios = {
        f"{name}'s {label}": ratio(run[cell][metric], run["mf-exact"][metric], paired=True)
        for metric, label in (("nelbo", "−ELBO"), ("log_loss", "log-loss"))
        for name, cell in (("Vadam", "vadam"), ("VOGN-1", "vogn-1"))
    }
    text = "; ".join(f"{name} is {found} times MF-Exact's" for name, found in ratios.items())
    verdict = every(*(within(found.shifted(-1.0), COMPARABLE) for found in ratios.values()))
    return Evidence(verdict, f"{_kind(run['vadam']['nelbo'])}, 95 %: {text}.")


def _vadam_worse_on_elbo(results: Results) -> Evidence:
    """Judge differences split by split: the splits are shared."""
    run = results["authors"]
    vogn = run["vogn-1"]["nelbo"]
    gap = difference(run["vadam"]["nelbo"], vogn, paired=True)
    slight = below(gap, COMPARABLE * interval(vogn).estimate)
    text = f"−ELBO/N of Vadam minus VOGN-1 over the splits, 95 %: {gap}."
    if isinstance(vogn, Summary):
        return Evidence(every(above(gap), slight), f"{_kind(vogn)}: {text}", "The values split by split.")
    return Evidence(every(above(gap), slight), text)


def _vogn_varies_more(results: Results) -> Evidence:
    """Compare the spreads in pairs: the splits are shared, and the log-losses of two methods rise and fall together.

    Boxes hold no pairs: their spreads are compared as if they were independent.
    """
    run = results["authors"]
    vogn = run["vogn-1"]["log_loss"]
    others = {"Vadam": run["vadam"]["log_loss"], "MF-Exact": run["mf-exact"]["log_loss"]}
    boxes = isinstance(vogn, Summary)
    found = {name: (ratio_of_boxes if boxes else pitman_morgan)(vogn, values) for name, values in others.items()}
    spreads = ", ".join(f"{name} {_deviation(values):.4f}" for name, values in {"VOGN-1": vogn, **others}.items())
    ratios = "; ".join(f"{value} × {name}'s" for name, value in found.items())
    how = "from the quartiles, not in pairs" if boxes else "Pitman and Morgan's test for pairs"
    splits = vogn.n if boxes else len(vogn)
    text = f"Standard deviation of the log-loss over {splits} shared splits: {spreads}. VOGN-1's is {ratios} (95 %, {how})."
    verdict = every(*(above(value, 1.0) for value in found.values()))
    return Evidence(verdict, text, "The values split by split." if boxes else "")


def _deviation(values: Sample) -> float:
    return values.deviation if isinstance(values, Summary) else float(np.std(values, ddof=1))


def _vogn_closer(results: Results) -> Evidence:
    run = results["authors"]
    vadam, vogn = run["vadam"]["kl"], run["vogn-1"]["kl"]
    gap = difference(vadam, vogn, paired=True)
    if isinstance(vadam, Summary):
        return Evidence(above(gap), f"{_kind(vadam)}: KL of Vadam minus VOGN-1, 95 %: {gap}.")
    wins = int(np.sum(np.asarray(vogn) < np.asarray(vadam)))
    text = f"KL of Vadam minus VOGN-1, 95 %: {gap}; VOGN-1 is closer on {wins} of {len(vogn)} splits."
    return Evidence(above(gap), text)


def _because_of_gm(results: Results) -> Evidence:
    run = results["authors"]
    vadam, ggn, vogn = (float(np.median(run[cell]["kl"])) for cell in ("vadam", "vadam-ggn", "vogn-1"))
    gap = difference(run["vadam"]["kl"], run["vadam-ggn"]["kl"], paired=True)
    without, whole = (np.subtract(run["vadam"]["kl"], run[cell]["kl"]).tolist() for cell in ("vadam-ggn", "vogn-1"))
    explained = compared(without, whole, lambda a, b: np.mean(a, axis=-1) / np.mean(b, axis=-1), paired=True)
    text = (
        f"Median KL: Vadam {vadam:.1f}; the same program with the GGN in place of the squared minibatch gradient "
        f"{ggn:.1f}; VOGN-1 {vogn:.1f}. Difference, 95 %: {gap}, which is {explained} times Vadam's difference from VOGN-1."
    )
    return Evidence(every(above(gap), above(explained, MOSTLY)), text)


def _near(cell: str, name: str) -> Callable[[Results], Evidence]:
    def judge(results: Results) -> Evidence:
        run = results["text"]
        found = interval(run[cell]["kl"], np.median)
        without = interval(run["vadam-larger-steps"]["kl"], np.median)
        text = (
            f"Median KL to MF-Exact over the splits, 95 %: {name} {found}; Fig. 1 with steps × √N, M = 64, {without}."
        )
        return Evidence(below(found, NEAR), text)

    return judge


def _kind(values: object) -> str:
    return "Medians, with intervals from the quartiles" if isinstance(values, Summary) else "Means"


CLAIMS = (
    Claim("usps-comparable", "§6.1", "On USPS, ELBO and log-loss are comparable for all methods.", _comparable),
    Claim("usps-elbo", "§6.1", "Vadam does slightly worse on ELBO.", _vadam_worse_on_elbo),
    Claim("usps-variance", "§6.1", "VOGN-1 has slightly higher variance for log-loss.", _vogn_varies_more),
    Claim("usps-kl", "§6.1", "VOGN-1's KL to MF-Exact is clearly smaller than Vadam's.", _vogn_closer),
    Claim(
        "usps-gm-bias",
        "§6.1",
        "Vadam does worse due to the bias of the gradient-magnitude approximation with M > 1 (Theorem 1).",
        _because_of_gm,
    ),
    Claim(
        "usps-ggn",
        "Aim of logreg-usps",
        f"VadamGGN with minibatches of 64 is within {NEAR:g} nats of MF-Exact.",
        _near("vadam-ggn", "VadamGGN"),
    ),
    Claim(
        "usps-batch-size",
        "Aim of logreg-usps",
        f"Vadam with `batch_size=2` (Theorem 1) is within {NEAR:g} nats of MF-Exact.",
        _near("vadam-batch-size-M2", "Vadam with `batch_size=2`"),
    ),
    Claim(
        "usps-batch-size-64",
        "Aim of logreg-usps",
        f"Vadam with `batch_size=64` (Theorem 1) is within {NEAR:g} nats of MF-Exact.",
        _near("vadam-batch-size-M64", "Vadam with `batch_size=64`"),
    ),
)
