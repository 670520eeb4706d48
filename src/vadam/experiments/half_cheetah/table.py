"""The curves of Fig. 3 right in numbers, beside those that the authors ship."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from vadam.experiments.results import Recorded, Results
from vadam.experiments.rl.reading import NAMES, horizon, speed, trials
from vadam.experiments.tables import Table

PAPER = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
UNTIL = 100_000
"""Who learns faster is judged by what comes before."""


def table(results: Results) -> Table:
    columns = (
        "Method",
        "Trials, steps",
        "Authors’ protocol",
        "… the last",
        "Text’s protocol",
        "Shipped, run 1",
        "Shipped, run 2",
    )
    rows = [
        (
            name,
            _progress(results.get("authors") or results.get("text"), method),
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
    runs = PAPER["runs"]
    vadam, again = (_mean_of_shipped(run["vadam"]) for run in runs)
    gaps = [_gap_of_shipped(run, "vadam", "adam-plain") for run in runs]
    return [
        "The authors ship two runs of the same five seeds, and they disagree about what comes first: over the first "
        f"{UNTIL:,} steps Vadam has {vadam:.0f} in one and {again:.0f} in the other, Adam-Plain "
        f"{_mean_of_shipped(runs[0]['adam-plain']):.0f} and {_mean_of_shipped(runs[1]['adam-plain']):.0f}. The standard "
        f"errors over five trials are up to {max(_mean_of_shipped(run[m], 'se') for run in runs for m in NAMES):.0f} there: Vadam is "
        f"ahead of Adam-Plain by {gaps[0]} and {gaps[1]}, which our ledger would call undecided.",
        "At N = 1, with c = 10,000, all explorers begin with the same σ = 0.01 on every weight, and VadaGrad’s rate "
        "0.01/√10000 is that of SGD: the methods are told apart by their step sizes first, by their variances later.",
    ]


def _progress(run: Recorded | None, method: str) -> str:
    found = trials(run, method) if run is not None else []
    return f"{len(found)}, {min(trial['step'][-1] for trial in found):,}" if found else "–"


def _speed(run: Recorded | None, method: str) -> str:
    if run is None:
        return "–"
    reached = min(UNTIL, horizon(run, (method,)))
    return _mean_and_error([speed(trial, reached) for trial in trials(run, method)])


def _last(run: Recorded | None, method: str) -> str:
    if run is None:
        return "–"
    reached = min(UNTIL, horizon(run, (method,)))
    return _mean_and_error([trial["mean"][trial["step"].index(reached)] for trial in trials(run, method)])


def _mean_and_error(values: list[float]) -> str:
    if not values:
        return "–"
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):.0f}{error}"


def _mean_of_shipped(curve: dict[str, Any], what: str = "mean") -> float:
    """At the time steps of our tests, between theirs."""
    ours = np.arange(10_000, UNTIL + 1, 10_000)
    return float(np.interp(ours, PAPER["step"], curve[what]).mean())


def _gap_of_shipped(run: dict[str, Any], first: str, second: str) -> str:
    """With its standard error, which is at most that of a single test."""
    gap = _mean_of_shipped(run[first]) - _mean_of_shipped(run[second])
    error = math.hypot(*(_mean_of_shipped(run[m], "se") for m in (first, second)))
    return f"{gap:.0f} ± {error:.0f}".replace("-", "−")


def _shipped(curve: dict[str, Any]) -> str:
    return f"{_mean_of_shipped(curve):.0f} (last 50 tests: {curve['last_50']})"
