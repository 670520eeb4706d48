"""Accuracy, log-likelihood, calibration and detection of out-of-distribution inputs, method by method."""

from typing import Any

import numpy as np

from vadam_paper.experiments.image.records import NAMES, NORMS, OOD_KINDS, QUANTILES, found, values
from vadam_paper.experiments.intervals import student
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table, mean_and_deviation


def table(results: Results) -> Table:
    columns = (
        "Network, method",
        "Accuracy, %",
        "Log-likelihood",
        "ECE, %",
        "AUROC, rotated",
        "… inverted",
        "… noise",
        "Training, × Adam",
    )
    run = results.get("text")
    rows = [_row(run, norm, method) for norm, method in found(run)] if run is not None else []
    caption = (
        "On test images, means over seeds ± standard deviation; each seed has its own split. AUROC: detection of out-of-distribution "
        "inputs by the entropy of the prediction. The last column is processor time of the training, median and range over seeds."
    )
    return Table(caption, columns, rows)


def more_tables(results: Results) -> list[Table]:
    run = results.get("text")
    return [] if run is None else [_against_adam(run), _posteriors(run)]


def _against_adam(run: Recorded) -> Table:
    """Return the differences from Adam; an interval that contains zero is within chance."""
    rows = [
        (
            f"{NORMS[norm]}, {NAMES[method]}",
            *(
                student(scale * _differences(run, norm, method, what)).signed(digits)
                for what, digits, scale in (
                    ("accuracy", 2, 100),
                    ("log_likelihood", 3, 1),
                    ("ece", 2, 100),
                    ("auroc", 3, 1),
                )
            ),
        )
        for norm, method in found(run)
        if method != "adam" and f"{norm}-adam" in run
    ]
    caption = (
        "The difference from Adam, seed by seed, with Student’s 95 % interval; one that contains zero is within chance. For ECE less "
        "is better; AUROC is the mean of the three kinds. Of many intervals, one in twenty misses by chance alone."
    )
    return Table(caption, ("Minus Adam", "Accuracy, %", "Log-likelihood", "ECE, %", "AUROC"), rows)


def _posteriors(run: Recorded) -> Table:
    rows = [_posterior(run, norm, method) for norm, method in found(run) if "precision" in _seeds(run, norm, method)[0]]
    columns = (
        "Network, method",
        "Precision: prior",
        "… initial part",
        "… 5 %",
        "… median",
        "… 95 %",
        "Isotropic minus own",
    )
    caption = (
        "The precision (N s + λ)/T of the sampled weights: the prior’s part λ/T, the start’s part, and quantiles over weights, medians "
        "over seeds. Last, the log-likelihood with one precision for all weights, the median, minus that with their own: Student’s 95 % "
        "interval."
    )
    return Table(caption, columns, rows)


def _posterior(run: Recorded, norm: str, method: str) -> tuple[str, ...]:
    seeds = _seeds(run, norm, method)
    parts = [float(np.median([seed["precision"][what] for seed in seeds])) for what in ("prior", "start", *QUANTILES)]
    gaps = [seed["isotropic"]["log_likelihood"] - seed["log_likelihood"] for seed in seeds]
    return (
        f"{NORMS[norm]}, {NAMES[method]}",
        *(f"{part:,.{_digits(part)}f}" for part in parts),
        student(gaps).signed(4),
    )


def _digits(number: float) -> int:
    return 0 if number >= 10 else 1


def _differences(run: Recorded, norm: str, method: str, what: str) -> np.ndarray:
    return values(run, norm, method, what) - values(run, norm, "adam", what)


def notes(results: Results) -> list[str]:
    run = results.get("text")
    if run is None:
        return []
    config = run.config
    chosen = "; ".join(
        f"{NORMS[norm]}, {NAMES[method]}: "
        + ", ".join(f"{name} {value:g}" for name, value in run[f"{norm}-{method}"]["chosen"].items())
        for norm, method in found(run)
    )
    at_ends = {f"{NORMS[norm]}, {NAMES[method]}": _edges(run, norm, method) for norm, method in found(run)}
    edges = "; ".join(f"{name}: {', '.join(ends)}" for name, ends in at_ends.items() if ends)
    return [
        f"The budget: every method sees every training image {config['epochs']} times in minibatches of {config['batch_size']}, with "
        f"one schedule; a deep ensemble’s {config['members']} members share it, and in the row with {config['members']} × the budget "
        "have it each. The last column shows the cost of a pass; VOGN’s includes the squares of every image’s gradient.",
        f"Settings were chosen by the log-likelihood of {100 * config['development_share']:.0f} % of the images, in {config['folds']} "
        f"folds; no seed trains or tests on them. {config['trials']} settings for each method. Chosen: {chosen}.",
        f"Chosen at the edge of the grid: {edges or 'none'}.",
    ]


def _edges(run: Recorded, norm: str, method: str) -> list[str]:
    """Return the chosen values that are at the edge of the values tried, where more than one was tried."""
    cell = run[f"{norm}-{method}"]
    tried = {name: [settings[name] for settings in cell["search"]] for name in cell["chosen"]}
    return [
        f"{name} {value:g}"
        for name, value in cell["chosen"].items()
        if min(tried[name]) < max(tried[name]) and value in (min(tried[name]), max(tried[name]))
    ]


def _row(run: Recorded, norm: str, method: str) -> tuple[str, ...]:
    def show(what: str, digits: int, scale: float = 1.0) -> str:
        return mean_and_deviation(scale * values(run, norm, method, what), digits)

    return (
        f"{NORMS[norm]}, {NAMES[method]}",
        show("accuracy", 2, 100),
        show("log_likelihood", 4),
        show("ece", 2, 100),
        *(show(f"auroc_{kind}", 3) for kind in OOD_KINDS),
        _cost(run, norm, method),
    )


def _cost(run: Recorded, norm: str, method: str) -> str:
    if f"{norm}-adam" not in run:
        return "–"
    times = values(run, norm, method, "training_cpu_seconds") / np.median(
        values(run, norm, "adam", "training_cpu_seconds")
    )
    return f"{np.median(times):.1f} ({times.min():.1f}–{times.max():.1f})"


def _seeds(run: Recorded, norm: str, method: str) -> list[dict[str, Any]]:
    seeds: list[dict[str, Any]] = run[f"{norm}-{method}"]["seeds"]
    return seeds
