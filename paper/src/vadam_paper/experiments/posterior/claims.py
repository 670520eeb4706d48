"""Aims of `posterior`, judged like the claims of the paper: differences seed by seed, 95 %."""

from collections.abc import Callable

import numpy as np

from vadam_paper.experiments.intervals import Interval, difference, student
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.posterior.records import FRACTIONS, apart, continual, merging, pruning
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.verdicts import above, below, every, exactly, more_seeds

FEWEST_SEEDS = 3
EXACT = 1e-8
JUDGED = (0.5, 0.75, 0.9)
"""Fractions of pruned weights that are judged."""
EQUAL = 0.002
"""Loss of accuracy that still counts as equal."""


def _gaps(
    run: Recorded,
    found: dict[str, np.ndarray],
    verdict: Callable[[Interval, float], Verdict],
    text: str,
    margin: float = 0.0,
) -> Evidence:
    """Judge differences, one for each seed, under several names."""
    seeds = min(map(len, found.values()))
    if seeds < FEWEST_SEEDS:
        return Evidence(Verdict.NOT_RUN, "Not all seeds have been run.", f"vadam run posterior, {FEWEST_SEEDS} seeds.")
    intervals = {name: student(gaps) for name, gaps in found.items()}
    listed = "; ".join(f"{name} {gap.format(3)}" for name, gap in intervals.items())
    verdicts = every(*(verdict(gap, margin) for gap in intervals.values()))
    seconds = run.manifest["cpu_seconds"] / run.config["seeds"]
    plan = more_seeds([*intervals.values()], seeds, margin, seconds_a_seed=seconds)
    return Evidence(verdicts, f"{text}, seed by seed, 95 %: {listed}.", plan if verdicts == Verdict.UNDECIDED else "")


def _continual(results: Results) -> Evidence:
    run = results["text"]
    accuracy = {method: continual(run, method) for method in ("adam", "vadam", "vadam-ggn")}
    if min(map(len, accuracy.values())) < FEWEST_SEEDS:
        return Evidence(Verdict.NOT_RUN, "Not all seeds have been run.", f"vadam run posterior, {FEWEST_SEEDS} seeds.")
    means = {method: values.mean(1) for method, values in accuracy.items()}
    found = {f"{name} minus Adam": apart(means[key], means["adam"]) for key, name in NAMES.items()}
    levels = ", ".join(f"{name} {means[key].mean():.1%}" for key, name in {"adam": "Adam", **NAMES}.items())
    return _gaps(run, found, above, f"Mean accuracy over the tasks after the last one: {levels}. Differences")


NAMES = {"vadam": "Vadam", "vadam-ggn": "VadamGGN"}


def _linear(results: Results) -> Evidence:
    run = results["text"]
    if "merge.linear" not in run:
        return _missing("merge.linear")
    mean, precision = (max(run["merge.linear"][what]) for what in ("mean", "precision"))
    text = f"Largest error of a mean {mean:.1g}, of a precision {precision:.1g} (relative)"
    count = len(run["merge.linear"]["mean"])
    return Evidence(exactly(max(mean, precision) < EXACT), f"{text}, over {count} regressions.")


def _logistic(results: Results) -> Evidence:
    run = results["text"]
    if "merge.logistic" not in run:
        return _missing("merge.logistic")
    kl = run["merge.logistic"]
    gaps = [difference(kl["merged"], kl[other], paired=True) for other in ("half", "averaged_means")]
    means = {name: float(np.mean(values)) for name, values in kl.items()}
    text = (
        f"Symmetric KL to the exact posterior of all rows, mean over {len(kl['merged'])} divisions: merged {means['merged']:.2f} nats, "
        f"one half {means['half']:.2f}, averaged means with the merged precisions {means['averaged_means']:.2f}. "
        f"Merged minus the others, 95 %: {gaps[0]}, {gaps[1]}."
    )
    return Evidence(every(*map(below, gaps)), text)


def _missing(cell: str) -> Evidence:
    return Evidence(Verdict.NOT_RUN, f"The cell {cell} has not been run.", "vadam run posterior")


def _networks(what: str, margin: float = 0.0) -> Callable[[Results], Evidence]:
    def judge(results: Results) -> Evidence:
        run = results["text"]
        merged = merging(run, "merged", what)
        others = {"average of Vadam’s means": "average", "average of Adam’s weights": "adam-average"}
        found = {f"merged minus {name}": apart(merged, merging(run, key, what)) for name, key in others.items()}
        return _gaps(run, found, above, f"{what.replace('_', '-').capitalize()} on test images", margin)

    return judge


def _pruned(what: str) -> Callable[[Results], Evidence]:
    def judge(results: Results) -> Evidence:
        run = results["text"]
        return _gaps(run, _by_fraction(run, what), above, f"{what.replace('_', '-').capitalize()}, SNR minus magnitude")

    return judge


def _by_fraction(run: Recorded, what: str) -> dict[str, np.ndarray]:
    snr, magnitude = (pruning(run, "vadam", by, what) for by in ("snr", "magnitude"))
    if not len(snr):
        return {"all": np.zeros(0)}
    gaps = apart(snr, magnitude)
    return {f"{fraction:.0%} pruned": gaps[:, FRACTIONS.index(fraction)] for fraction in JUDGED}


AIM = "Aim of posterior"
CLAIMS = (
    Claim(
        "posterior-continual",
        AIM,
        "With the posterior of the tasks before as prior, a network remembers five tasks of permuted MNIST better than a fine-tuned one.",
        _continual,
    ),
    Claim(
        "posterior-merge-linear",
        AIM,
        f"Merged posteriors of two halves are the joint posterior of linear regression, to {EXACT:g}.",
        _linear,
    ),
    Claim(
        "posterior-merge-logistic",
        AIM,
        "On logistic regression they are closer to the joint posterior than one half, and than the plain average of the means.",
        _logistic,
    ),
    Claim(
        "posterior-merge-log-likelihood",
        AIM,
        "The merged mean of two networks has a higher log-likelihood on MNIST than the plain average of weights.",
        _networks("log_likelihood"),
    ),
    Claim(
        "posterior-merge-accuracy",
        AIM,
        f"It is as accurate as the plain average, within {EQUAL:.1%}.",
        _networks("accuracy", -EQUAL),
    ),
    Claim(
        "posterior-prune-accuracy",
        AIM,
        "LeNet-5 pruned by 50, 75 and 90 % is more accurate by signal-to-noise ratio than by magnitude.",
        _pruned("accuracy"),
    ),
    Claim(
        "posterior-prune-log-likelihood",
        AIM,
        "It also has a higher log-likelihood.",
        _pruned("log_likelihood"),
    ),
)
