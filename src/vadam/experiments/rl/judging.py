"""Evidence from trials: who learns faster."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vadam.experiments.evidence import Interval, welch
from vadam.experiments.ledger import Evidence, Verdict, judged
from vadam.experiments.results import Recorded, Results
from vadam.experiments.rl.reading import NAMES, final, horizon, speed, trials, unrest

MEASURES: dict[Any, str] = {
    speed: "Mean test return from the start on",
    final: "Mean of the last 50 test returns",
    unrest: "Distance of a test return from the middle of its neighbours",
}


MARGIN = 0.25
"""Two methods are comparable if their difference, with its whole interval, is below that share of the second's return."""


def ahead(gap: Interval, scale: float) -> bool:
    return gap.low > 0


def comparable(gap: Interval, scale: float) -> bool:
    return not_behind(gap, scale) and gap.high < MARGIN * scale


def not_behind(gap: Interval, scale: float) -> bool:
    return gap.low > -MARGIN * scale


def _side(gap: Interval) -> str:
    return "above zero" if gap.low > 0 else "below zero" if gap.high < 0 else "undecided"


def main(results: Results) -> Recorded:
    return results.get("authors") or results["text"]


def compared(
    first: tuple[str, ...],
    second: tuple[str, ...],
    holds: Callable[[Interval, float], bool] = ahead,
    *,
    measure: Callable[[Mapping[str, Any], int], float] = speed,
    until: int,
    trials_needed: int,
) -> Callable[[Results], Evidence]:
    """Each of ``first`` against each of ``second``: what must hold of the difference of their means, Welch's 95 % interval.

    A difference that five trials leave undecided supports nothing; the text says which are.
    """

    def judge(results: Results) -> Evidence:
        run = main(results)
        lacking = missing(run, (*first, *second), trials_needed, until)
        parts, clear = [], True
        for a, b in [(a, b) for a in first for b in second if trials(run, a) and trials(run, b)]:
            reached = min(until, horizon(run, (a, b)))
            ours, theirs = ([measure(trial, reached) for trial in trials(run, m)] for m in (a, b))
            gap = welch(ours, theirs)
            clear = clear and holds(gap, abs(float(np.mean(theirs))))
            parts.append(
                f"{NAMES[a]} {np.mean(ours):.0f} ({len(ours)} trials), {NAMES[b]} {np.mean(theirs):.0f} ({len(theirs)}), "
                f"difference {gap.estimate:.0f} [{gap.low:.0f}, {gap.high:.0f}], {_side(gap)}, {reached:,} steps"
            )
        text = f"{MEASURES[measure]}, 95 %: {'; '.join(parts)}." if parts else ""
        if lacking:
            return Evidence(Verdict.NOT_RUN, f"{lacking} {text}".strip())
        return judged(clear, text)

    return judge


def missing(run: Recorded, methods: tuple[str, ...], trials_needed: int, until: int) -> str:
    """In words, what the recorded trials lack; empty if nothing."""
    short = []
    for method in methods:
        done = sum(trial["step"][-1] >= until for trial in trials(run, method))
        if done < trials_needed:
            short.append(f"{NAMES[method]} {done} of {trials_needed}")
    return f"Trials of {until:,} steps so far: {', '.join(short)}." if short else ""


def never_grows(method: str, *, trials_needed: int, until: int) -> Callable[[Results], Evidence]:
    def judge(results: Results) -> Evidence:
        run = main(results)
        found = trials(run, method)
        grown = max((max(x or 0.0 for x in trial["grown"]) for trial in found), default=0.0)
        sigma = [trial["sigma"][-1] for trial in found]
        text = (
            f"Largest share of weights whose variance grew from one test to the next, over {len(found)} trials: {grown:.2g}; "
            f"mean σ from {found[0]['sigma'][0]:.4g} to {np.mean(sigma):.4g}."
            if found
            else ""
        )
        lacking = missing(run, (method,), trials_needed, until)
        return Evidence(Verdict.NOT_RUN, f"{lacking} {text}".strip()) if lacking else judged(grown == 0, text)

    return judge
