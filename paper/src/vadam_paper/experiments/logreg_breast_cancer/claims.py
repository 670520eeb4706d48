"""The paper's claims about Fig. 2c, and what §3.4 expects."""

from itertools import pairwise

import numpy as np

from vadam_paper.experiments.intervals import compared, difference, interval, ratio
from vadam_paper.experiments.ledger import Claim, Evidence
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import above, below, differs, every, exactly, within

STILL_FALLING = 0.05
CLOSE = 1.0
"""Symmetric KL in nats that counts as a close match; the curve spans 0.5 to 10."""
SAME = 0.05
"""Symmetric KL in nats that counts as no difference."""
SIMILAR = 0.05
"""Relative difference of performances that counts as similar."""
CORRECTED = 1.5
"""Largest symmetric KL in nats that Vadam with Theorem 1's correction may have."""
MOSTLY = 0.5
"""Share of a difference that a cause must explain."""


def _better_with_smaller_minibatches(results: Results) -> Evidence:
    run = results["authors"]
    sizes = sorted(run.config["batch_sizes"])
    kl = [run[f"vadam-M{M}"]["kl"] for M in sizes]
    rises = [difference(b, a, paired=False, statistic=np.median) for a, b in pairwise(kl)]
    medians = "; ".join(f"M = {M}: {interval(values, np.median)}" for M, values in zip(sizes, kl, strict=True))
    steps = "; ".join(f"{a} to {b}: {rise}" for (a, b), rise in zip(pairwise(sizes), rises, strict=True))
    return Evidence(every(*map(above, rises)), f"Median KL, 95 %: {medians}. It rises, from {steps}.")


def _one_matches_vogn(results: Results) -> Evidence:
    run = results["authors"]
    gap = difference(run["vadam-M1"]["kl"], run["vogn-1"]["kl"], paired=False)
    largest = max(run.config["batch_sizes"])
    far = interval(run[f"vadam-M{largest}"]["kl"], np.median).estimate
    text = (
        f"KL of Vadam at M = 1 minus VOGN-1's, 95 %: {gap}; at M = {largest} Vadam is at {far:.1f}. Close is {CLOSE:g}."
    )
    return Evidence(within(gap, CLOSE), text)


def _still_different(results: Results) -> Evidence:
    run = results["authors"]
    gap = difference(run["vadam-M1"]["kl"], run["vogn-1"]["kl"], paired=False)
    return Evidence(differs(gap, SAME), f"Difference of the mean KL, 95 %: {gap}; {SAME:g} counts as none.")


def _because_of_the_root(results: Results) -> Evidence:
    """Judge by the remaining difference once VOGN-1, which has no square root, uses Vadam's decaying rates."""
    run = results["authors"]
    vadam, vogn, decay = (run[cell]["kl"] for cell in ("vadam-M1", "vogn-1", "vogn-1-with-decay"))
    whole = abs(float(np.median(vadam) - np.median(vogn)))
    left = compared(vadam, decay, lambda a, b: abs(np.median(a, axis=-1) - np.median(b, axis=-1)) / whole, paired=False)
    text = (
        f"Median KL: Vadam with M = 1 {np.median(vadam):.2f}, VOGN-1 {np.median(vogn):.2f}. VOGN-1, which has no square root, ends at "
        f"{np.median(decay):.2f} once its rates decay as Vadam's do: {left} of the difference is left, 95 %."
    )
    return Evidence(above(left, MOSTLY), text)


def _converged(results: Results) -> Evidence:
    """Judge convergence by the fall of the median KL over the last 37 % of the epochs.

    These are the last two points of the recorded trace.
    """
    falls = {}
    for protocol in ("authors", "text"):
        run = results[protocol]
        for cell in [f"vadam-M{M}" for M in run.config["batch_sizes"]] + ["vogn-1"]:
            before, end = run[cell]["trace"]["kl"][-2:]
            falls[protocol, cell] = (before - end) / before
    still = [f"{cell} ({protocol}) {fall:.0%}" for (protocol, cell), fall in falls.items() if fall > STILL_FALLING]
    text = (
        f"Over the last 37 % of the epochs the median KL still falls by: {', '.join(still) or 'nowhere more than 5 %'}."
    )
    return Evidence(exactly(not still), text)


def _vogn_near_von(results: Results) -> Evidence:
    run = results["authors"]
    found = {
        label: ratio(run["vogn-1"][metric], [float(np.mean(run["mf-exact"][metric]))] * 2, paired=False)
        for metric, label in (("nelbo", "−ELBO/N"), ("log_loss", "log-loss"))
    }
    text = "; ".join(f"its {label} is {value} times MF-Exact's" for label, value in found.items())
    verdict = every(*(within(value.shifted(-1.0), SIMILAR) for value in found.values()))
    return Evidence(verdict, f"VON's fixed point is MF-Exact. VOGN-1 over restarts, 95 %: {text}.")


def _corrected(results: Results) -> Evidence:
    run = results["text"]
    sizes = [M for M in sorted(run.config["batch_sizes"]) if M > 1]
    found = {M: interval(run[f"vadam-batch-size-M{M}"]["kl"], np.median) for M in sizes}
    medians = "; ".join(f"M = {M}: {value}" for M, value in found.items())
    return Evidence(every(*(below(value, CORRECTED) for value in found.values())), f"Median KL, 95 %: {medians}.")


CLAIMS = (
    Claim(
        "breast-converged",
        "§6.1",
        "The methods are run for many iterations with a small learning rate, so that they converge.",
        _converged,
    ),
    Claim(
        "breast-m",
        "§6.1",
        "As the minibatch size decreases, Vadam's performance gets better.",
        _better_with_smaller_minibatches,
    ),
    Claim("breast-m1", "§6.1", "For M = 1, Vadam closely matches VOGN-1.", _one_matches_vogn),
    Claim(
        "breast-different", "§6.1", "At M = 1 the results of Vadam and VOGN-1 are still different.", _still_different
    ),
    Claim("breast-root", "§6.1", "They differ because of Vadam's square root over s.", _because_of_the_root),
    Claim(
        "breast-von",
        "§3.2",
        "VOGN's solutions differ from VON's, but their performances are expected to be similar.",
        _vogn_near_von,
    ),
    Claim(
        "breast-batch-size",
        "Aim of logreg-breast-cancer",
        f"With `batch_size=M` (Theorem 1), Vadam is within {CORRECTED:g} nats of MF-Exact at every M above 1.",
        _corrected,
    ),
)
