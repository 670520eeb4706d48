"""Evidence from trials: who learns faster."""

from collections.abc import Callable

import numpy as np

from vadam.experiments.evidence import difference
from vadam.experiments.ledger import Evidence, Verdict, judged
from vadam.experiments.results import Recorded, Results
from vadam.experiments.rl.reading import NAMES, horizon, speed, trials


def main(results: Results) -> Recorded:
    return results.get("authors") or results["text"]


def faster(
    fast: tuple[str, ...], slow: tuple[str, ...], *, until: int, trials_needed: int
) -> Callable[[Results], Evidence]:
    """Each of ``fast`` has a larger mean test return up to ``until`` than each of ``slow``, at 95 %."""

    def judge(results: Results) -> Evidence:
        run = main(results)
        lacking = missing(run, (*fast, *slow), trials_needed, until)
        pairs = [(a, b) for a in fast for b in slow if trials(run, a) and trials(run, b)]
        parts, clear = [], True
        for a, b in pairs:
            reached = min(until, horizon(run, (a, b)))
            better, worse = ([speed(trial, reached) for trial in trials(run, m)] for m in (a, b))
            gap = difference(better, worse, paired=False)
            clear = clear and gap.low > 0
            parts.append(
                f"{NAMES[a]} {np.mean(better):.0f} ({len(better)} trials), {NAMES[b]} {np.mean(worse):.0f} ({len(worse)}), "
                f"difference {gap.estimate:.0f} [{gap.low:.0f}, {gap.high:.0f}]"
            )
        text = f"Mean test return over the first {until:,} steps, 95 %: {'; '.join(parts)}." if parts else ""
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


def late(results: Results) -> Evidence:
    """A claim about three million steps."""
    run = main(results)
    reached = max((trial["step"][-1] for method in NAMES for trial in trials(run, method)), default=0)
    return Evidence(Verdict.NOT_RUN, f"It is about three million steps; recorded so far: {reached:,}.")


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


def steadier(calm: str, wild: str, *, until: int, trials_needed: int) -> Callable[[Results], Evidence]:
    """By the mean absolute change of the test return from one test to the next."""

    def judge(results: Results) -> Evidence:
        run = main(results)
        lacking = missing(run, (calm, wild), trials_needed, until)
        moves = {
            m: [float(np.abs(np.diff(np.asarray(t["mean"], dtype=float))).mean()) for t in trials(run, m)]
            for m in (calm, wild)
        }
        text = "; ".join(f"{NAMES[m]} {np.mean(v):.0f} ({len(v)} trials)" for m, v in moves.items() if v)
        text = f"Mean change of the test return from one test to the next: {text}." if text else ""
        if lacking:
            return Evidence(Verdict.NOT_RUN, f"{lacking} {text}".strip())
        gap = difference(moves[wild], moves[calm], paired=False)
        return judged(gap.low > 0, f"{text} Difference, 95 %: {gap.estimate:.0f} [{gap.low:.0f}, {gap.high:.0f}].")

    return judge
