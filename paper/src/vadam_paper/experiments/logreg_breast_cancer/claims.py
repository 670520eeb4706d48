"""The paper's claims about Fig. 2c, and what §3.4 expects."""

from itertools import pairwise

import numpy as np

from vadam_paper.experiments.intervals import difference, interval
from vadam_paper.experiments.ledger import Claim, Evidence, judged
from vadam_paper.experiments.results import Results

STILL_FALLING = 0.05
CLOSE = 1.0
"""Symmetric KL in nats that counts as a close match; the curve spans 0.5 to 10."""


def _better_with_smaller_minibatches(results: Results) -> Evidence:
    run = results["authors"]
    sizes = sorted(run.config["batch_sizes"])
    kl = [interval(run[f"vadam-M{M}"]["kl"], np.median) for M in sizes]
    steps = pairwise(kl)
    text = "Median KL, 95 %: " + "; ".join(f"M = {M}: {value}" for M, value in zip(sizes, kl, strict=True))
    return judged(all(a.high < b.low for a, b in steps), f"{text}.")


def _one_matches_vogn(results: Results) -> Evidence:
    run = results["authors"]
    gap = difference(run["vadam-M1"]["kl"], run["vogn-1"]["kl"], paired=False)
    largest = max(run.config["batch_sizes"])
    far = float(np.median(run[f"vadam-M{largest}"]["kl"]))
    text = f"KL of Vadam at M = 1 minus VOGN-1's, 95 %: {gap}; at M = {largest} Vadam is at {far:.1f}."
    return judged(max(abs(gap.low), abs(gap.high)) < CLOSE, text)


def _still_different(results: Results) -> Evidence:
    run = results["authors"]
    gap = difference(run["vadam-M1"]["kl"], run["vogn-1"]["kl"], paired=False)
    return judged(gap.low > 0 or gap.high < 0, f"Difference of the mean KL, 95 %: {gap}.")


def _because_of_the_root(results: Results) -> Evidence:
    run = results["authors"]
    vadam, vogn, decay = (float(np.median(run[cell]["kl"])) for cell in ("vadam-M1", "vogn-1", "vogn-1-with-decay"))
    text = (
        f"Median KL: Vadam with M = 1 {vadam:.2f}, VOGN-1 {vogn:.2f}. VOGN-1, which has no square root, ends at "
        f"{decay:.2f} once its rates decay as Vadam's do: what remains of the difference then is {abs(vadam - decay):.2f}."
    )
    return judged(abs(vadam - decay) > 0.5 * abs(vadam - vogn), text)


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
    return judged(not still, text)


def _vogn_near_von(results: Results) -> Evidence:
    run = results["authors"]
    exact, vogn = np.mean(run["mf-exact"]["nelbo"]), np.mean(run["vogn-1"]["nelbo"])
    losses = np.mean(run["mf-exact"]["log_loss"]), np.mean(run["vogn-1"]["log_loss"])
    text = (
        f"VON's fixed point is MF-Exact: −ELBO/N {exact:.4f}, log-loss {losses[0]:.4f}; "
        f"VOGN-1: {vogn:.4f} and {losses[1]:.4f}."
    )
    return judged(bool(abs(vogn / exact - 1) < 0.05 and abs(losses[1] / losses[0] - 1) < 0.05), text)


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
)
