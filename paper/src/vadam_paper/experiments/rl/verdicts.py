"""Judge claims about learning speed from trials.

All methods of a trial share their seeds, and yet their trials count as independent (Welch): the first differences of a network make a
trial take another course, and returns of equal seeds do not rise and fall together. Over the fifteen pairs of methods the correlation of
the recorded learning speeds is −0.1 on average, so pairs would only cost degrees of freedom.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vadam_paper.experiments.intervals import Interval, welch, welch_freedom
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.rl.records import NAMES, final, horizon, speed, trials, unrest
from vadam_paper.experiments.verdicts import (
    POWER,
    Evidence,
    Verdict,
    above,
    every,
    exactly,
    nearest_margin,
    trials_needed,
    within,
)

MEASURES: dict[Any, str] = {
    speed: "Mean test return from the start on",
    final: "Mean of the last 50 test returns",
    unrest: "Distance of a test return from the middle of its neighbours",
}

MARGIN = 0.25
"""Two methods are comparable if the whole interval of their difference is within this fraction of the second's return."""
Rule = Callable[[Interval, float], tuple[Verdict, float]]
"""Maps a difference and the size of the second's return to the verdict and its margin."""


def ahead(gap: Interval, scale: float) -> tuple[Verdict, float]:
    """Judge: the first is better."""
    return above(gap), 0.0


def comparable(gap: Interval, scale: float) -> tuple[Verdict, float]:
    """Judge: the two differ by less than a quarter of the second's return."""
    return within(gap, MARGIN * scale), nearest_margin(gap, MARGIN * scale)


def not_behind(gap: Interval, scale: float) -> tuple[Verdict, float]:
    """Judge: the first is not worse by a quarter of the second's return."""
    return above(gap, -MARGIN * scale), -MARGIN * scale


def format_gap(gap: Interval, verdict: Verdict | None = None) -> str:
    """Return a difference with its interval and what it says: against zero, or the verdict of another rule."""
    side = "above zero" if gap.low > 0 else "below zero" if gap.high < 0 else "undecided"
    return f"{gap.estimate:.0f} [{gap.low:.0f}, {gap.high:.0f}], {verdict or side}".replace("-", "−")


def main(results: Results) -> Recorded:
    return results.get("authors") or results["text"]


def compared(
    first: tuple[str, ...],
    second: tuple[str, ...],
    rule: Rule = ahead,
    *,
    measure: Callable[[Mapping[str, Any], int], float] = speed,
    until: int,
    fewest: int,
) -> Callable[[Results], Evidence]:
    """Return a judge that compares each of ``first`` with each of ``second``.

    ``rule`` gives the verdict on Welch's 95 % interval of the difference of means. Evidence of fewer than ``fewest`` trials is
    reported without a verdict, except for final returns.
    """

    def judge(results: Results) -> Evidence:
        run = main(results)
        lacking = missing(run, (*first, *second), fewest, until)
        parts, verdicts, plans = [], [], []
        for a, b in [(a, b) for a in first for b in second if trials(run, a) and trials(run, b)]:
            reached, found = _comparable_trials(run, (a, b), fewest, until)
            if measure is final and reached < until:
                continue
            ours, theirs = ([measure(trial, reached) for trial in some] for some in found)
            gap = welch(ours, theirs)
            verdict, margin = rule(gap, abs(float(np.mean(theirs))))
            verdicts.append(verdict)
            parts.append(
                f"{NAMES[a]} {np.mean(ours):.0f} ({len(ours)} trials), {NAMES[b]} {np.mean(theirs):.0f} ({len(theirs)}), "
                f"difference {format_gap(gap, verdict)}, {reached:,} steps"
            )
            if verdict == Verdict.UNDECIDED and min(len(ours), len(theirs)) > 1:
                plans.append(_plan(run, (a, b), (ours, theirs), gap, margin, until))
        text = f"{MEASURES[measure]}, 95 %: {'; '.join(parts)}." if parts else ""
        if lacking:
            return Evidence(
                Verdict.NOT_RUN, f"{lacking} {text}".strip(), _hours_of_missing(run, first, second, fewest, until)
            )
        return Evidence(every(*verdicts), text, " ".join(plans))

    return judge


def _comparable_trials(
    run: Recorded, pair: tuple[str, str], fewest: int, until: int
) -> tuple[int, list[list[dict[str, Any]]]]:
    """Return the time step up to which two methods are compared, and the trials of each.

    These are the trials that have reached ``until``, if both methods have ``fewest`` of them: one that is still under way does not
    shorten the others. Otherwise they are all trials, up to the step that all have reached.
    """
    whole = [[trial for trial in trials(run, method) if trial["step"][-1] >= until] for method in pair]
    if min(map(len, whole)) >= fewest:
        return until, whole
    return min(until, horizon(run, pair)), [trials(run, method) for method in pair]


def _plan(
    run: Recorded,
    pair: tuple[str, str],
    samples: tuple[list[float], list[float]],
    gap: Interval,
    margin: float,
    until: int,
) -> str:
    """Return in words how many trials would decide between two methods, and what they cost."""
    names, have = " against ".join(NAMES[method] for method in pair), [len(sample) for sample in samples]
    spread = math.sqrt(sum(float(np.var(sample, ddof=1)) for sample in samples))
    needed = trials_needed(gap, min(have), margin, freedom=welch_freedom(*samples), spread=spread)
    if needed is None:
        return f"{names}: no number of trials up to 1,000 decides a difference that small."
    more = sum(max(0, needed - n) for n in have)
    cost = hours(run, more * until)
    return f"{names}: {needed} trials of each decide it with a probability of {100 * POWER:.0f} %, {more} more{cost}."


def hours(run: Recorded, steps: int, of: str = " ({} processor hours)") -> str:
    """Return the processor hours of that many time steps, at the price of the recorded ones; empty where it is not known."""
    done = sum(trial["step"][-1] for method in NAMES for trial in trials(run, method))
    seconds = run.manifest.get("cpu_seconds")
    return of.format(f"{steps * seconds / done / 3600:.1f}") if seconds and done else ""


def _hours_of_missing(run: Recorded, first: tuple[str, ...], second: tuple[str, ...], fewest: int, until: int) -> str:
    steps = 0
    for method in {*first, *second}:
        ends = sorted((min(until, trial["step"][-1]) for trial in trials(run, method)), reverse=True)[:fewest]
        steps += fewest * until - sum(ends)
    cost = hours(run, steps)
    return f"{fewest} trials of {until:,} steps of each{cost}."


def missing(run: Recorded, methods: tuple[str, ...], fewest: int, until: int) -> str:
    """Say which trials are missing; return an empty string if none is."""
    short = []
    for method in methods:
        done = sum(trial["step"][-1] >= until for trial in trials(run, method))
        if done < fewest:
            short.append(f"{NAMES[method]} {done} of {fewest}")
    return f"Trials of {until:,} steps so far: {', '.join(short)}." if short else ""


def never_grows(method: str, *, fewest: int, until: int) -> Callable[[Results], Evidence]:
    """Judge: at no look at any trial has a variance grown since the look before."""

    def judge(results: Results) -> Evidence:
        run = main(results)
        found = trials(run, method)
        grown = max((max(x or 0.0 for x in trial["grown"]) for trial in found), default=0.0)
        text = _of_variances(found, grown) if found else ""
        lacking = missing(run, (method,), fewest, until)
        if lacking:
            return Evidence(
                Verdict.NOT_RUN, f"{lacking} {text}".strip(), _hours_of_missing(run, (method,), (), fewest, until)
            )
        return Evidence(exactly(grown == 0), text)

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
