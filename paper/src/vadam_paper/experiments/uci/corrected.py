"""Theorem 1's correction at T = 1 beside a searched temperature: the runs *corrected* and *best* on the splits that both have."""

from typing import Any

import numpy as np

from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table
from vadam_paper.experiments.uci.comparison import METRICS, SETS, compare, mean

CORRECTED = "vadam-corrected"
"""Vadam of the protocol *corrected*, in a run beside that of *best*."""
NAME = "Vadam at T = 1 with batch_size"
SCORES = ("rmse", "joint_log_likelihood", "log_likelihood")


def beside_best(results: Results) -> Recorded | None:
    """Return one run with the cells of both: ``vadam-…`` of *best*, and ``vadam-corrected-…``; None if either is missing."""
    if not {"best", "corrected"} <= results.keys():
        return None
    best, corrected, cells = results["best"], results["corrected"], {}
    for name in SETS:
        if (key := f"vadam-{name}") in best and key in corrected:
            splits = min(len(run[key]["rmse"]) for run in (best, corrected))
            cells[key] = _first(best[key], splits)
            cells[f"{CORRECTED}-{name}"] = _first(corrected[key], splits)
    return Recorded(corrected.preset, "corrected", corrected.manifest, cells)


def _first(cell: dict[str, Any], splits: int) -> dict[str, Any]:
    single = {metric: cell[metric][:splits] for metric in SCORES}
    return single | {"mixture": {metric: cell["mixture"][metric][:splits] for metric in SCORES}, "point": cell["point"]}


def table(run: Recorded) -> Table:
    columns = (
        "Set",
        "splits",
        "metric",
        "searched T",
        "T = 1, batch_size",
        "better",
        "mixture, searched T",
        "mixture, T = 1",
        "median T found",
    )
    caption = (
        "Beyond the table: Vadam as under best, with its temperature searched, and with Theorem 1’s correction (batch_size) at T = 1. Mean "
        "± standard error over the splits; “better” by a paired t-test at p ≤ 0.01."
    )
    rows = []
    for name in SETS:
        if f"vadam-{name}" not in run:
            continue
        cells = [run[f"vadam-{name}"], run[f"{CORRECTED}-{name}"]]
        temperature = f"{np.median(cells[0]['point']['temperature']):.2g}"
        for metric in ("rmse", "log_likelihood"):
            comparison = compare(run, CORRECTED, "vadam", name, metric)
            assert comparison is not None
            one = [str(mean(cell[metric])) for cell in cells]
            several = [str(mean(cell["mixture"][metric])) for cell in cells]
            ahead = {1: "T = 1", -1: "searched T", 0: "both"}[comparison.sign]
            call = f"{ahead} (p = {comparison.p:.2g})"
            splits = str(len(cells[0][metric]))
            rows.append((name.capitalize(), splits, METRICS[metric], *one, call, *several, temperature))
    return Table(caption, columns, rows)
