"""The curves of Fig. 3 right in numbers, beside those that the authors ship."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from vadam.experiments.results import Recorded, Results
from vadam.experiments.rl.reading import NAMES, speed, trials
from vadam.experiments.tables import Table

PAPER = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
UNTIL = 100_000


def table(results: Results) -> Table:
    columns = (
        "Method",
        "Trials, steps",
        "Authors’ protocol",
        "… at the end",
        "Text’s protocol",
        "Shipped, run 1",
        "Shipped, run 2",
    )
    rows = [
        (
            name,
            _progress(results.get("authors") or results.get("text"), method),
            _speed(results.get("authors"), method),
            _end(results.get("authors"), method),
            _speed(results.get("text"), method),
            *(_shipped(run[method]) for run in PAPER["runs"]),
        )
        for method, name in NAMES.items()
        if any(trials(run, method) for run in results.values())
    ]
    caption = (
        f"Test return with the mean weights, averaged over the tests in the first {UNTIL:,} time steps; mean ± standard error over "
        "trials. The shipped runs are on HalfCheetah-v1, ours on HalfCheetah-v5."
    )
    return Table(caption, columns, rows)


def notes(results: Results) -> list[str]:
    runs = PAPER["runs"]
    vadam, again = (_mean_of_shipped(run["vadam"]) for run in runs)
    return [
        "The authors ship two runs of the same five seeds, and they disagree about what comes first: over the first "
        f"{UNTIL:,} steps Vadam has {vadam:.0f} in one and {again:.0f} in the other, Adam-Plain "
        f"{_mean_of_shipped(runs[0]['adam-plain']):.0f} and {_mean_of_shipped(runs[1]['adam-plain']):.0f}. The standard "
        f"errors over five trials are up to {max(_mean_of_shipped(run[m], 'se') for run in runs for m in NAMES):.0f} there.",
        "At N = 1, with c = 10,000, all explorers begin with the same σ = 0.01 on every weight, and VadaGrad’s rate "
        "0.01/√10000 is that of SGD: the methods are told apart by their step sizes first, by their variances later.",
    ]


def _progress(run: Recorded | None, method: str) -> str:
    found = trials(run, method) if run is not None else []
    return f"{len(found)}, {min(trial['step'][-1] for trial in found):,}" if found else "–"


def _speed(run: Recorded | None, method: str) -> str:
    return _mean_and_error([speed(trial, UNTIL) for trial in trials(run, method)]) if run is not None else "–"


def _end(run: Recorded | None, method: str) -> str:
    return _mean_and_error([trial["mean"][-1] for trial in trials(run, method)]) if run is not None else "–"


def _mean_and_error(values: list[float]) -> str:
    if not values:
        return "–"
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):.0f}{error}"


def _mean_of_shipped(curve: dict[str, Any], what: str = "mean") -> float:
    """At the time steps of our tests, between theirs."""
    ours = np.arange(10_000, UNTIL + 1, 10_000)
    return float(np.interp(ours, PAPER["step"], curve[what]).mean())


def _shipped(curve: dict[str, Any]) -> str:
    return f"{_mean_of_shipped(curve):.0f} (last 50 tests: {curve['last_50']})"
