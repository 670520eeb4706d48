"""The numbers of Fig. 3 left."""

import json
from pathlib import Path

import numpy as np

from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table

PAPER = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
NAMES = {"bbvi": "BBVI", "vadam": "Vadam", "vogn": "VOGN"}


def settings(run: Recorded) -> list[tuple[int, int]]:
    return [(M, S) for S in run.config["samples"] for M in run.config["batch_sizes"]]


def table(results: Results) -> Table:
    columns = ("Method, M, S", "Shipped history", "Authors’ protocol", "… pointwise", "Text’s protocol", "At step 500")
    run = results.get("authors") or results.get("text")
    if run is None:
        return Table("", columns, [])
    authors, text = results.get("authors"), results.get("text")
    rows = []
    for M, S in settings(run):
        for method, name in NAMES.items():
            cell = f"{method}-M{M}-S{S}"
            same = method != "vogn" and authors is not None
            rows.append(
                (
                    f"{name}, {M}, {S}",
                    f"{PAPER['end'][cell]:.3f}" if cell in PAPER["end"] else "–",
                    _mean(authors, cell, "joint", "end"),
                    _mean(authors, cell, "pointwise", "end"),
                    "the same" if same else _mean(text, cell, "joint", "end"),
                    _mean(authors, cell, "joint", "at_500"),
                )
            )
    caption = (
        "Test log-loss in bits, joint over the test set as the authors compute it, mean over iterations 4,500 to 5,000; "
        "mean ± standard deviation over seeds."
    )
    return Table(caption, columns, rows)


def notes(results: Results) -> list[str]:
    if set(results) != {"authors", "text"}:
        return []
    authors, text = results["authors"], results["text"]
    cell = "vogn-M1-S1"
    with_text, with_authors = (np.mean(run[cell]["joint"]["end"]) for run in (text, authors))
    early_text, early = (np.mean(run[cell]["joint"]["early"]) for run in (text, authors))
    return [
        "Authors’ protocol: VOGN averages its curvature with a weight of 0.999 on the past. The histories that the authors "
        "ship are single runs with ten samples at evaluation, and the joint log-loss of ten samples is noisy: the bands "
        "show what twenty seeds do.",
        "Text’s protocol: the text says γ₁ = 0.9 for VOGN, which has no γ₁ without momentum; read as the weight of the "
        f"past curvature it gives, at M = 1 and S = 1, {with_text:.3f} bits at the end against {with_authors:.3f}, and "
        f"{early_text:.3f} against {early:.3f} on average over the first thousand steps. BBVI and Vadam have the same "
        "settings in text and program.",
    ]


def _mean(run: Recorded | None, cell: str, kind: str, what: str) -> str:
    if run is None or cell not in run:
        return "–"
    values = np.asarray(run[cell][kind][what], dtype=float)
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"
