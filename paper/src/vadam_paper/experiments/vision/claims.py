"""Our claims for one network trained by a variational optimizer, judged as the paper's claims are."""

from collections.abc import Callable, Sequence

import numpy as np

from vadam_paper.experiments.intervals import Interval, student
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.verdicts import above, below, every, more_seeds
from vadam_paper.experiments.vision.records import NAMES, SETS, best_variational, costs, jackknife, paired, values

FEWEST_SEEDS = 3
"""Seeds of every method in a comparison, without which there is no verdict."""
BASELINES = ("adamw", "mc-dropout", "laplace")
REFINED_VI = 0.259
AUROC_GAIN = 0.05
COST = 1.3
NO_WORSE = 0.01
COMMAND = "vadam run vision"

Judge = Callable[[Results], Evidence]
Pair = tuple[str, str, str]
"""Set, method, other method."""


def _judge(
    run: Recorded,
    pairs: Sequence[Pair],
    what: str,
    rule: Callable[[Interval, float], Verdict],
    scale: float,
    margin: float = 0.0,
) -> Evidence:
    """Judge the paired differences of all pairs against the margin; all must hold."""
    found = {pair: paired(run, *pair, what) for pair in pairs}
    text = "; ".join(
        f"{SETS[name]}, {NAMES[method]} minus {NAMES[other]} {student(scale * gaps).format(3)}"
        for (name, method, other), gaps in found.items()
        if len(gaps)
    )
    fewest = min((len(gaps) for gaps in found.values()), default=0)
    if fewest < FEWEST_SEEDS:
        so_far = f"So far, no verdict: {text}." if text else "The methods have not been run."
        return Evidence(Verdict.NOT_RUN, so_far, f"{COMMAND}, {FEWEST_SEEDS} seeds of each method.")
    intervals = [student(gaps) for gaps in found.values()]
    verdict = every(*(rule(gap, margin) for gap in intervals))
    # Laplace trains no network of its own: it takes AdamW's
    trained = {(name, method) for name, *methods in pairs for method in methods if method != "laplace"}
    plan = more_seeds(intervals, fewest, margin, seconds_a_seed=_seconds(run, trained))
    return Evidence(verdict, f"{fewest} seeds, 95 %: {text}.", plan if verdict == Verdict.UNDECIDED else "")


def _seconds(run: Recorded, trained: set[tuple[str, str]]) -> float:
    """Return the processor time of training these methods on these sets, for one seed."""
    return float(sum(np.mean(values(run, name, method, "cpu_seconds")) for name, method in trained))


def _best(run: Recorded) -> str:
    return best_variational(run, "fashion") or "vadam"


def _lower_than_baselines(what: str, scale: float) -> Judge:
    def judge(results: Results) -> Evidence:
        run = results["text"]
        pairs = [(name, _best(run), other) for name in SETS for other in BASELINES]
        return _judge(run, pairs, what, below, scale)

    return judge


def _foreign(results: Results) -> Evidence:
    run = results["text"]
    pairs = [(name, _best(run), "adamw") for name in SETS]
    return _judge(run, pairs, "auroc", above, 1.0, AUROC_GAIN)


def _correction(results: Results) -> Evidence:
    return _judge(results["text"], [(name, "vadam", "vadam-paper") for name in SETS], "nll", below, 1.0)


def _mixture(results: Results) -> Evidence:
    """Judge "no worse": the whole interval is below zero or within a hundredth of a nat above."""
    run = results["text"]
    found = {name: jackknife(run, name, "mixture", "deep-ensemble") for name in SETS}
    if not all(map(len, found.values())):
        return Evidence(Verdict.NOT_RUN, "The mixture and the ensemble have not been run on both sets.", f"{COMMAND}.")
    gaps = {name: student(values) for name, values in found.items()}
    text = "; ".join(f"{SETS[name]} {gap.format(4)}" for name, gap in gaps.items())
    verdict = every(*(below(gap, NO_WORSE) for gap in gaps.values()))
    plan = "Another mixture and another ensemble, of other seeds." if verdict == Verdict.UNDECIDED else ""
    return Evidence(verdict, f"NLL of the mixture minus the ensemble’s, jackknife over members, 95 %: {text}.", plan)


def _public(results: Results) -> Evidence:
    run = results["text"]
    method = _best(run)
    losses = values(run, "fashion", method, "nll")
    if len(losses) < FEWEST_SEEDS:
        so_far = f"So far, no verdict: {NAMES[method]} {losses.mean():.4f}." if len(losses) else "It has not been run."
        return Evidence(Verdict.NOT_RUN, so_far, f"{COMMAND}, {FEWEST_SEEDS} seeds.")
    found = student(losses)
    plan = more_seeds([found], len(losses), REFINED_VI, seconds_a_seed=_seconds(run, {("fashion", method)}))
    return Evidence(below(found, REFINED_VI), f"{NAMES[method]}, {len(losses)} seeds, 95 %: {found.format(4)}.", plan)


def _cost(results: Results) -> Evidence:
    run = results["text"]
    method = _best(run)
    found = costs(run, method)
    if not len(found):
        return Evidence(Verdict.NOT_RUN, "The time of a step has not been measured.", f"{COMMAND}.")
    ratio = student(found)
    plan = "More rounds of the cell speed." if below(ratio, COST) == Verdict.UNDECIDED else ""
    return Evidence(
        below(ratio, COST), f"{NAMES[method]}, processor time of a step × AdamW, both in turn, 95 %: {ratio}.", plan
    )


CLAIMS = (
    Claim(
        "vision-nll",
        "Aim of vision",
        "One network by the best variational optimizer has a lower NLL than tuned AdamW, MC-Dropout and last-layer Laplace, on "
        "Fashion-MNIST and MNIST.",
        _lower_than_baselines("nll", 1.0),
    ),
    Claim(
        "vision-ece", "Aim of vision", "It has a lower calibration error than these.", _lower_than_baselines("ece", 1.0)
    ),
    Claim(
        "vision-foreign",
        "Aim of vision",
        f"Its entropy detects OOD images with an AUROC that is {AUROC_GAIN:g} above AdamW’s, on both sets.",
        _foreign,
    ),
    Claim(
        "vision-public",
        "Aim of vision",
        f"Its NLL on Fashion-MNIST is below the public refined VI’s, {REFINED_VI:g}.",
        _public,
    ),
    Claim("vision-cost", "Aim of vision", f"Its training takes at most {COST:g} × AdamW’s.", _cost),
    Claim(
        "vision-correction",
        "Aim of vision",
        "Vadam with Theorem 1’s correction and a data weight has a lower NLL than the paper’s Vadam.",
        _correction,
    ),
    Claim(
        "vision-mixture",
        "Aim of vision",
        f"A mixture of 5 posteriors has an NLL no worse than a deep ensemble of 5, by {NO_WORSE:g} at most.",
        _mixture,
    ),
)
