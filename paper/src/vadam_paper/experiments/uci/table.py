"""Table 1 beside the paper's, all methods with both log-likelihoods, and the text's protocol."""

import math

import numpy as np

from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table
from vadam_paper.experiments.uci import corrected
from vadam_paper.experiments.uci.comparison import (
    METRICS,
    NAMES,
    PAPER,
    SETS,
    Mean,
    better,
    bold,
    compare,
    distance,
    mean,
    paper,
    values,
)
from vadam_paper.experiments.uci.config import CONVERGED

FAR = 2.0
"""Distance from the paper's number, in combined standard errors, above which a cell is reported."""


def table(results: Results) -> Table:
    columns = ("Set", "BBVI, paper", "BBVI", "off by", "Vadam, paper", "Vadam", "off by", "better, paper", "better")
    caption = (
        "Table 1 again, authors’ protocol: mean ± standard error over the splits, joint log-likelihood per test point. "
        "“Off by” is ours minus the paper’s in combined standard errors; “better” by a paired t-test at p ≤ 0.01."
    )
    run = results.get("authors")
    if run is None:
        return Table(caption, columns, [])
    rows = [
        (
            f"{name.capitalize()}, {METRICS[metric]}",
            *_beside_the_paper(run, "bbvi", name, metric),
            *_beside_the_paper(run, "vadam", name, metric),
            bold(name, metric),
            _better(run, name, metric),
        )
        for name in SETS
        for metric in ("rmse", "joint_log_likelihood")
        if name in run.config["sets"]
    ]
    return Table(caption, columns, rows)


def more_tables(results: Results) -> list[Table]:
    """Return the tables of all methods under one protocol, with the pointwise log-likelihood."""
    titles = {
        "authors": "All methods, authors’ protocol: selected by the joint log-likelihood (MC-Dropout by the pointwise one).",
        "text": "The same, selected by the pointwise log-likelihood, and every network with first weights of its own; γ as in the program.",
    }
    tables = [
        _all_methods(results[protocol], f"{title} Mean ± standard error over the splits.")
        for protocol, title in titles.items()
        if protocol in results
    ]
    if "best" not in results:
        return tables
    converged = _converged(results["best"])
    beside = corrected.beside_best(results)
    of_correction = [corrected.table(beside)] if beside is not None else []
    return [*tables, _best(results["best"]), *([converged] if converged.rows else []), *of_correction]


def notes(results: Results) -> list[str]:
    run = results.get("authors")
    of_table = [] if run is None else [_how_far(run), *_far_off(run), *_failures(run), *_one_split(run)]
    of_table += [] if "text" not in results else _printed_rates(results["text"])
    return of_table + ([_count_ahead(results["best"])] if "best" in results else [])


def _all_methods(run: Recorded, caption: str) -> Table:
    names = [method for method in NAMES if any(f"{method}-{name}" in run for name in SETS)]
    rows = [
        (f"{name.capitalize()}, {METRICS[metric]}", *(_mean(run, method, name, metric) for method in names))
        for name in SETS
        for metric in METRICS
        if any(f"{method}-{name}" in run for method in names)
    ]
    return Table(caption, ("Set", *(NAMES[method] for method in names)), rows)


def _best(run: Recorded) -> Table:
    """Compare with MC-Dropout trained a hundred times longer than the table's, from the files that Gal published."""
    K = run.config["members"]
    columns = (
        "Set",
        "MC-Dropout, 4,000 epochs",
        "… at most",
        "one posterior",
        f"mixture of {K}",
        "RMSE, one",
        f"RMSE, {K}",
        "ahead",
    )
    caption = (
        "Beyond the table: pointwise log-likelihood of Vadam with long training, a falling rate and one sample a step; λ, τ and a "
        "temperature by cross-validation inside the training part, the noise of predictions fitted to the rows that its folds leave "
        "out. Mean ± standard error over the splits. “Ahead”: a higher mean than converged MC-Dropout; “at most”: what the largest noise "
        "precision τ of its grid allows, ½ log(τ/2π)."
    )
    rows = []
    for name in SETS:
        if f"vadam-{name}" not in run:
            continue
        cell = run[f"vadam-{name}"]
        converged, *ours = _log_likelihoods(run, name)
        ahead = [which for which, found in zip(("one", "mixture"), ours, strict=True) if found.mean > converged.mean]
        rmse = [str(mean(scores["rmse"])) for scores in (cell, cell["mixture"])]
        most = f"{0.5 * math.log(PAPER[name]['converged']['largest_tau'] / math.tau):.2f}"
        rows.append(
            (name.capitalize(), _three(converged), most, *map(_three, ours), *rmse, " and ".join(ahead) or "no")
        )
    return Table(caption, columns, rows)


def _converged(run: Recorded) -> Table:
    """Compare with MC-Dropout of our own, trained as long and searched as widely, on the splits that both have."""
    columns = ("Set", "splits", "metric", "MC-Dropout", "Vadam", "better", "mixture of MC-Dropout", "mixture of Vadam")
    caption = (
        "Beyond the table, the fair comparison: MC-Dropout and Vadam with the same network, epochs, falling rate, mixtures and fitted "
        "noise; dropout rate or temperature, λ and τ by 20 points of the same search. Mean ± standard error over the splits; “better” "
        "by a paired t-test at p ≤ 0.01."
    )
    rows = []
    for name in SETS:
        if f"{CONVERGED}-{name}" not in run or f"vadam-{name}" not in run:
            continue
        cells = [run[f"{method}-{name}"] for method in (CONVERGED, "vadam")]
        splits = min(len(cell["rmse"]) for cell in cells)
        for metric in ("rmse", "log_likelihood"):
            comparison = compare(run, CONVERGED, "vadam", name, metric)
            assert comparison is not None
            one = [str(mean(cell[metric][:splits])) for cell in cells]
            several = [str(mean(cell["mixture"][metric][:splits])) for cell in cells]
            call = f"{better(comparison, CONVERGED, 'vadam')} (p = {comparison.p:.2g})"
            rows.append((name.capitalize(), str(splits), METRICS[metric], *one, call, *several))
    return Table(caption, columns, rows)


def _log_likelihoods(run: Recorded, name: str) -> tuple[Mean, Mean, Mean]:
    """Return the log-likelihoods of converged MC-Dropout, one posterior, and the mixture."""
    cell = run[f"vadam-{name}"]
    single, mixture = (mean(scores["log_likelihood"]) for scores in (cell, cell["mixture"]))
    return Mean(*PAPER[name]["converged"]["log_likelihood"]), single, mixture


def _three(value: Mean) -> str:
    return f"{value.mean:.3f} ± {value.error:.3f}" if np.isfinite(value.mean) else str(value)


def _how_far(run: Recorded) -> str:
    """Say which part of the sweep is recorded, and what it cost."""
    sets, methods = run.config["sets"], run.config["methods"]
    done = {method: sum(f"{method}-{name}" in run for name in sets) for method in methods}
    counts = ", ".join(f"{NAMES[method]} {count}" for method, count in done.items())
    whole = "The sweep is whole" if all(count == len(sets) for count in done.values()) else "The sweep goes on"
    hours = run.manifest["cpu_seconds"] / 3600
    return f"{whole}: of {len(sets)} sets, {counts}; {hours:.2f} processor hours so far, in single-threaded processes."


def _one_split(run: Recorded) -> list[str]:
    """Report Kin8nm as the authors' program evaluates it: its loader reads the split's number from the set's name."""
    parts, near, seen = [], 0, 0
    for method in ("bbvi", "vadam"):
        for metric in ("rmse", "joint_log_likelihood"):
            found, papers = values(run, method, "kin8nm.8", metric), paper(method, "kin8nm", metric)
            if found is None or papers is None:
                continue
            near, seen = near + (abs(distance(mean(found), papers)) <= FAR), seen + 1
            parts.append(
                f"{NAMES[method]} {METRICS[metric]} {mean(found)} (paper {papers.mean:.2f} ± {papers.error:.2f}; true splits "
                f"{_mean(run, method, 'kin8nm', metric)})"
            )
    if not parts:
        return []
    return [
        f"Kin8nm, split 8 twenty times, as the authors’ loader has it: {'; '.join(parts)}. There {near} of {seen} lie within {FAR:g} "
        "combined standard errors of the paper’s."
    ]


def _printed_rates(run: Recorded) -> list[str]:
    """Report Vadam with γ₁ = 0.99 and γ₂ = 0.9, as App. J prints them, with its own search."""
    done = [name for name in SETS if f"vadam-printed-{name}" in run and f"vadam-{name}" in run]
    parts = [
        f"{name.capitalize()} {METRICS[metric]} {_mean(run, 'vadam-printed', name, metric)} instead of {_mean(run, 'vadam', name, metric)}"
        for name in done
        for metric in ("rmse", "log_likelihood")
    ]
    if not parts:
        return []
    return [
        f"Vadam with γ₁ = 0.99 and γ₂ = 0.9, as App. J prints them, searched anew: {'; '.join(parts)}. The printed pair is a slip."
    ]


def _failures(run: Recorded) -> list[str]:
    """List the points of the searches at which a network diverged."""
    failed = {cell: sum(result.get("failed_trials", ())) for cell, result in run.cells.items()}
    listed = ", ".join(f"{cell} {count}" for cell, count in failed.items() if count)
    return [f"Points of a search at which a network diverged, over all splits: {listed}."] if listed else []


def _count_ahead(run: Recorded) -> str:
    done = [name for name in SETS if f"vadam-{name}" in run]
    found = [_log_likelihoods(run, name) for name in done]
    one, mixture = (sum(row[k].mean > row[0].mean for row in found) for k in (1, 2))
    missing = ", ".join(name for name in SETS if name not in done)
    rest = f" Not run yet: {missing}." if missing else ""
    return f"Ahead of converged MC-Dropout, of {len(done)} sets: one posterior on {one} and the mixture on {mixture}.{rest}"


def _far_off(run: Recorded) -> list[str]:
    """List the cells that are far from the paper's numbers."""
    seen, far = 0, []
    for name in SETS:
        for method in ("bbvi", "vadam"):
            for metric in ("rmse", "joint_log_likelihood"):
                ours, papers = values(run, method, name, metric), paper(method, name, metric)
                if ours is None or papers is None:
                    continue
                seen += 1
                off = distance(mean(ours), papers)
                if not np.isfinite(ours).all():
                    far.append(f"{NAMES[method]} on {name}, {METRICS[metric]} (diverged)")
                elif abs(off) > FAR:
                    side = "better" if (off < 0) == (metric == "rmse") else "worse"
                    far.append(f"{NAMES[method]} on {name}, {METRICS[metric]} ({side}, {off:+.1f})")
    if not seen:
        return []
    inside = f"{seen - len(far)} of {seen} cells lie within {FAR:g} combined standard errors of the paper’s."
    return [inside + (f" The others: {'; '.join(far)}." if far else "")]


def _beside_the_paper(run: Recorded, method: str, name: str, metric: str) -> tuple[str, str, str]:
    papers, ours = paper(method, name, metric), values(run, method, name, metric)
    assert papers is not None
    printed = f"{papers.mean:.2f} ± {papers.error:.2f}"
    if ours is None:
        return printed, "–", "–"
    off = distance(mean(ours), papers)
    return printed, str(mean(ours)), f"{off:+.1f}" if np.isfinite(off) else "–"


def _better(run: Recorded, name: str, metric: str) -> str:
    comparison = compare(run, "vadam", "bbvi", name, metric)
    return "–" if comparison is None else f"{better(comparison, 'vadam', 'bbvi')} (p = {comparison.p:.2g})"


def _mean(run: Recorded, method: str, name: str, metric: str) -> str:
    """Return the mean as text; MC-Dropout has one mask per example, so it has no joint log-likelihood."""
    ours = values(run, method, name, metric)
    if ours is None or (method == "mc-dropout" and metric == "joint_log_likelihood"):
        return "–"
    return str(mean(ours))
