"""The numbers of Fig. 3 right, beside those that the authors ship."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vadam_paper.experiments.half_cheetah.film import on_its_back
from vadam_paper.experiments.intervals import welch
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.rl.records import NAMES, horizon, speed, trials
from vadam_paper.experiments.rl.verdicts import format_gap, hours, main
from vadam_paper.experiments.tables import Table

PAPER = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
UNTIL = 100_000
"""Time step up to which learning speed is compared."""
FIRST_SIGMA = 0.01
"""Initial σ: 1/√c, and 1/√s₁."""


def table(results: Results) -> Table:
    columns = (
        "Method",
        "Trials × steps",
        "Authors’ protocol",
        "… the last",
        "Text’s protocol",
        "Shipped, run 1",
        "Shipped, run 2",
    )
    rows = [
        (
            name,
            _progress(main(results), method),
            _speed(results.get("authors"), method),
            _last(results.get("authors"), method),
            _speed(results.get("text"), method),
            *(_shipped(run[method]) for run in PAPER["runs"]),
        )
        for method, name in NAMES.items()
        if any(trials(run, method) for run in results.values())
    ]
    caption = (
        f"Test return with the mean weights, averaged over the tests in the first {UNTIL:,} time steps, or as far as all trials of the "
        "method go, and the last of these tests; mean ± standard error over trials. The shipped runs are on HalfCheetah-v1, ours on "
        "HalfCheetah-v5."
    )
    return Table(caption, columns, rows)


def notes(results: Results) -> list[str]:
    run = main(results) if results else None
    return [_of_shipped_runs(), *([] if run is None else [*_to_go(run), *_of_exploration(run), *_of_falls(run)])]


def _to_go(run: Recorded) -> list[str]:
    """Say how far the trials are that were planned to decide the first five trials' open claims."""
    planned = run.config.get("trials_of", {})
    done = {method: sum(t["step"][-1] >= UNTIL for t in trials(run, method)) for method in planned}
    if all(done[method] >= planned[method] for method in planned):
        return []
    listed = ", ".join(f"{NAMES[method]} {done[method]} of {count}" for method, count in planned.items())
    steps = sum(max(0, count - done[method]) for method, count in planned.items()) * UNTIL
    return [
        f"Of the trials that were planned to decide Vadam against Adam-Plain and VadaGrad against SGD-Plain, {UNTIL:,} steps are recorded "
        f"of: {listed}{hours(run, steps, of='; the rest takes {} processor hours')}."
    ]


def _of_shipped_runs() -> str:
    plain, explore = (
        [_gap_of_shipped(run, other) for run in PAPER["runs"]] for other in ("adam-plain", "adam-explore")
    )
    return (
        "The authors ship two runs of the same five seeds, of which the paper reports the first. By the measure of this table, with "
        f"Welch’s 95 % intervals, Vadam − Adam-Plain is {plain[0]}, in the first and {plain[1]}, in the second; Vadam − Adam-Explore "
        f"is {explore[0]}, in the first and {explore[1]}, in the second: about Adam-Explore the two runs contradict each other."
    )


def _gap_of_shipped(run: dict[str, Any], other: str) -> str:
    return format_gap(welch(run["vadam"]["speeds"], run[other]["speeds"]))


def _of_exploration(run: Recorded) -> list[str]:
    found = {method: [trial for trial in trials(run, method) if "sigma" in trial] for method in NAMES}
    means = {method: float(np.mean([trial["sigma"][-1] for trial in some])) for method, some in found.items() if some}
    if not means:
        return []
    smallest = {method: min(trial["sigma_min"][-1] for trial in found[method]) for method in means}
    listed = ", ".join(f"{NAMES[method]} {mean:.3g} ({smallest[method]:.2g})" for method, mean in means.items())
    constant = max(abs(mean / FIRST_SIGMA - 1) for mean in means.values()) < 0.05
    return [
        f"All explorers begin with σ = {FIRST_SIGMA} on every weight. At the end of these trials its mean over weights, and in brackets "
        f"the smallest, is: {listed}."
        + (" As far as this goes, exploration is noise of nearly constant size in weight space." if constant else "")
    ]


def _of_falls(run: Recorded) -> list[str]:
    films = [trial["film"] for method in NAMES for trial in trials(run, method) if "film" in trial]
    fallen, upright = (
        [film["return"] for film in films if on_its_back(film["frames"]) == back] for back in (True, False)
    )
    if not (fallen and upright):
        return []
    return [
        f"In the strips of film {len(fallen)} of {len(films)} cheetahs are on their backs, and move forward all the same: their "
        f"episodes have a return of {np.mean(fallen):.0f} on average, those of the others {np.mean(upright):.0f}. It is a part of the "
        "spread between trials."
    ]


def _progress(run: Recorded, method: str) -> str:
    """Return how many trials have reached which time step, e.g. "5 × 200,000, 1 × 100,000"."""
    ends = Counter(trial["step"][-1] for trial in trials(run, method))
    return ", ".join(f"{ends[end]} × {end:,}" for end in sorted(ends, reverse=True)) or "–"


def _speed(run: Recorded | None, method: str) -> str:
    return _of_trials(run, method, speed)


def _last(run: Recorded | None, method: str) -> str:
    return _of_trials(run, method, lambda trial, reached: trial["mean"][trial["step"].index(reached)])


def _of_trials(run: Recorded | None, method: str, measure: Callable[[dict[str, Any], int], float]) -> str:
    """Return mean and error of a measure up to the time step that all trials have reached."""
    if run is None:
        return "–"
    reached = min(UNTIL, horizon(run, (method,)))
    return _mean_and_error([measure(trial, reached) for trial in trials(run, method)])


def _mean_and_error(values: list[float]) -> str:
    if not values:
        return "–"
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):.0f}{error}"


def _shipped(curve: dict[str, Any]) -> str:
    return f"{_mean_and_error(curve['speeds'])} (last 50 tests: {curve['last_50']})"
