"""Verdicts: compare an interval with the margin of a claim.

supported      the whole interval is on the claim's side of the margin
contradicted   the whole interval is on the other side
undecided      the margin lies inside the interval
not run        there is nothing to judge
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from vadam_paper.experiments.intervals import Interval, student_quantile

POWER = 0.8
"""Probability that the proposed number of trials decides, if the difference is as large as estimated."""
MOST_TRIALS = 1000


class Verdict(StrEnum):
    """The verdict on a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Evidence:
    """A verdict with its explanation; ``would_decide`` names further runs that would settle an open claim."""

    verdict: Verdict
    text: str
    would_decide: str = ""


def exactly(holds: bool) -> Verdict:
    """Return the verdict on a statement without chance: an identity, an enumeration, a stated rule."""
    return Verdict.SUPPORTED if holds else Verdict.CONTRADICTED


def above(gap: Interval, margin: float = 0.0) -> Verdict:
    """Return the verdict on "the quantity is larger than the margin"."""
    if gap.low > margin:
        return Verdict.SUPPORTED
    return Verdict.CONTRADICTED if gap.high < margin else Verdict.UNDECIDED


def below(gap: Interval, margin: float = 0.0) -> Verdict:
    """Return the verdict on "the quantity is smaller than the margin"."""
    return above(Interval(-gap.estimate, -gap.high, -gap.low), -margin)


def within(gap: Interval, margin: float) -> Verdict:
    """Return the verdict on "the quantity is closer to zero than the margin"."""
    return every(above(gap, -margin), below(gap, margin))


def differs(gap: Interval, margin: float) -> Verdict:
    """Return the verdict on "the quantity is farther from zero than the margin"."""
    return opposite(within(gap, margin))


def opposite(verdict: Verdict) -> Verdict:
    """Return the verdict on the negated statement."""
    turned = {Verdict.SUPPORTED: Verdict.CONTRADICTED, Verdict.CONTRADICTED: Verdict.SUPPORTED}
    return turned.get(verdict, verdict)


def every(*verdicts: Verdict) -> Verdict:
    """Return the verdict on "all of these hold"; one that fails contradicts it, and of nothing it is "not run"."""
    if not verdicts:
        return Verdict.NOT_RUN
    for verdict in (Verdict.CONTRADICTED, Verdict.NOT_RUN, Verdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return Verdict.SUPPORTED


def trials_needed(
    gap: Interval, trials: int, margin: float = 0.0, *, freedom: float | None = None, spread: float | None = None
) -> int | None:
    """Return how many trials would decide an open question; None above ``MOST_TRIALS``.

    It uses the current difference and spread: with n trials the two-sided 95 % interval excludes the margin with
    probability ``POWER`` once (t₀.₉₇₅ + t_POWER) s/√n is at most the distance from the estimate to the margin.
    ``freedom`` is that of the interval, ``trials − 1`` unless given. ``spread`` is s, the standard deviation of one difference; it
    follows from the width of the interval unless given, which is needed for two methods with unequal numbers of trials.
    """
    distance, half = abs(gap.estimate - margin), (gap.high - gap.low) / 2
    if not (trials > 1 and distance > 0 and math.isfinite(half)):
        return None
    per_trial = (trials - 1 if freedom is None else freedom) / (trials - 1)
    if spread is None:
        spread = half * math.sqrt(trials) / student_quantile(0.975, per_trial * (trials - 1))
    for n in range(trials, MOST_TRIALS + 1):
        df = per_trial * (n - 1)
        if (student_quantile(0.975, df) + student_quantile(POWER, df)) * spread / math.sqrt(n) <= distance:
            return n
    return None


def more_seeds(gaps: Sequence[Interval], seeds: int, margin: float = 0.0, *, seconds_a_seed: float = 0.0) -> str:
    """Return in words how many seeds would decide all differences that are open, and at most what they cost; empty if none is."""
    open_still = [gap for gap in gaps if gap.low <= margin <= gap.high]
    needed = [trials_needed(gap, seeds, margin) for gap in open_still]
    if not needed:
        return ""
    if None in needed:
        return f"No number of seeds up to {MOST_TRIALS:,} decides a difference as small as the smallest."
    most = max(n for n in needed if n is not None)
    hours = f" (at most {(most - seeds) * seconds_a_seed / 3600:.1f} processor hours)" if seconds_a_seed else ""
    return f"{most} seeds decide it with a probability of {100 * POWER:.0f} %, {most - seeds} more{hours}."


def nearest_margin(gap: Interval, margin: float) -> float:
    """Return the one of ±margin that lies inside the interval, or else is nearer to the estimate."""
    return min((margin, -margin), key=lambda m: (not gap.low <= m <= gap.high, abs(gap.estimate - m)))
