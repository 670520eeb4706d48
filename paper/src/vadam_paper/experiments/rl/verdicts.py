"""Judge claims about learning speed from trials."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vadam_paper.experiments.intervals import Interval, welch
from vadam_paper.experiments.ledger import Evidence, Verdict, judged
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.rl.records import NAMES, final, horizon, speed, trials, unrest

MEASURES: dict[Any, str] = {
    speed: "Mean test return from the start on",
    final: "Mean of the last 50 test returns",
    unrest: "Distance of a test return from the middle of its neighbours",
}


MARGIN = 0.25
"""Two methods are comparable if the whole interval of their difference is within this fraction of the second's return."""


def ahead(gap: Interval, scale: float) -> bool:
    return gap.low > 0


def comparable(gap: Interval, scale: float) -> bool:
    return not_behind(gap, scale) and gap.high < MARGIN * scale


def not_behind(gap: Interval, scale: float) -> bool:
    return gap.low > -MARGIN * scale


def format_gap(gap: Interval) -> str:
    side = "above zero" if gap.low > 0 else "below zero" if gap.high < 0 else "undecided"
    return f"{gap.estimate:.0f} [{gap.low:.0f}, {gap.high:.0f}], {side}".replace("-", "−")


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
    """Return a judge that compares each of ``first`` with each of ``second``.

    ``holds`` decides on Welch's 95 % interval of the difference of means. An undecided difference does not support a claim;
    the evidence names it. Evidence of incomplete trials is reported too, except for final returns.
    """

    def judge(results: Results) -> Evidence:
        run = main(results)
        lacking = missing(run, (*first, *second), trials_needed, until)
        parts, clear = [], True
        for a, b in [(a, b) for a in first for b in second if trials(run, a) and trials(run, b)]:
            reached = min(until, horizon(run, (a, b)))
            if measure is final and reached < until:
                continue
            ours, theirs = ([measure(trial, reached) for trial in trials(run, m)] for m in (a, b))
            gap = welch(ours, theirs)
            clear = clear and holds(gap, abs(float(np.mean(theirs))))
            parts.append(
                f"{NAMES[a]} {np.mean(ours):.0f} ({len(ours)} trials), {NAMES[b]} {np.mean(theirs):.0f} ({len(theirs)}), "
                f"difference {format_gap(gap)}, {reached:,} steps"
            )
        text = f"{MEASURES[measure]}, 95 %: {'; '.join(parts)}." if parts else ""
        if lacking:
            return Evidence(Verdict.NOT_RUN, f"{lacking} {text}".strip())
        return judged(clear, text)

    return judge


def missing(run: Recorded, methods: tuple[str, ...], trials_needed: int, until: int) -> str:
    """Say which trials are missing; return an empty string if none is."""
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
        text = _of_variances(found, grown) if found else ""
        lacking = missing(run, (method,), trials_needed, until)
        return Evidence(Verdict.NOT_RUN, f"{lacking} {text}".strip()) if lacking else judged(grown == 0, text)

    return judge


def _of_variances(found: list[dict[str, Any]], grown: float) -> str:
    looks, every = len(found[0]["step"]) - 1, found[0]["step"][1] - found[0]["step"][0]
    moved = [trial["shrunk"][-1] for trial in found if "shrunk" in trial]
    return (
        f"Looked at every {every:,} steps, {looks} times in each of {len(found)} trials: the largest share of weights whose variance had "
        f"grown since the look before is {grown:.2g}. The mean σ goes from {found[0]['sigma'][0]:.4g} to "
        f"{np.mean([trial['sigma'][-1] for trial in found]):.4g}, the smallest to {min(trial['sigma_min'][-1] for trial in found):.2g}"
        + (
            f"; at the last look {np.mean(moved):.0%} of the variances had shrunk since the one before."
            if moved
            else "."
        )
    )
