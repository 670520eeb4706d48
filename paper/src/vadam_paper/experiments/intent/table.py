"""Tables: scores of each method, differences from AdamW, chosen settings."""

import numpy as np

from vadam_paper.experiments.intent.records import NAMES, SIZES, paired, seeds, values
from vadam_paper.experiments.intervals import student
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table, mean_and_deviation

SCORES = (
    ("accuracy", "Accuracy, %", 2, 100.0),
    ("nll", "NLL", 4, 1.0),
    ("ece", "ECE, %", 2, 100.0),
    ("aurc", "AURC, %", 3, 100.0),
    ("auroc", "AUROC out of scope", 4, 1.0),
    ("auroc_mi", "… by mutual information", 4, 1.0),
    ("recall", "Recall out of scope, %", 1, 100.0),
)


def table(results: Results) -> Table:
    run = results.get("text")
    rows = (
        []
        if run is None
        else [_row(run, size, method) for size in SIZES for method in NAMES if seeds(run, size, method)]
    )
    caption = (
        "4,500 test queries of 150 intents, 1,000 out of scope: means over seeds ± standard deviation. AUROC says how well the entropy "
        "tells queries out of scope; recall is the share of them that is refused when 95 % of the test queries are answered."
    )
    return Table(
        caption, ("Training set, method", "Seeds", *(title for _, title, *_ in SCORES), "Training, × AdamW"), rows
    )


def _row(run: Recorded, size: str, method: str) -> tuple[str, ...]:
    found = [mean_and_deviation(scale * values(run, size, method, what), digits) for what, _, digits, scale in SCORES]
    ours, theirs = (values(run, size, one, "cpu_seconds") for one in (method, "adamw"))
    cost = f"{np.median(ours) / np.median(theirs):.2f}" if len(theirs) and np.median(theirs) > 0 else "–"
    return (f"{SIZES[size]}, {NAMES[method]}", str(len(seeds(run, size, method))), *found, cost)


def more_tables(results: Results) -> list[Table]:
    run = results.get("text")
    return [] if run is None else [_against_adamw(run)]


def _against_adamw(run: Recorded) -> Table:
    shown = (("accuracy", 2, 100), ("nll", 4, 1), ("ece", 2, 100), ("auroc", 4, 1), ("recall", 1, 100))
    rows = [
        (
            f"{SIZES[size]}, {NAMES[method]}",
            *(
                student(scale * paired(run, size, method, "adamw", what)).signed(digits)
                for what, digits, scale in shown
            ),
        )
        for size in SIZES
        for method in NAMES
        if method != "adamw" and len(paired(run, size, method, "adamw", "nll"))
    ]
    columns = ("Minus AdamW", "Accuracy, %", "NLL", "ECE, %", "AUROC", "Recall, %")
    return Table("The difference from AdamW, seed by seed, with Student’s 95 % interval.", columns, rows)


def notes(results: Results) -> list[str]:
    run = results.get("text")
    if run is None:
        return []
    config = run.config
    chosen = "; ".join(
        f"{SIZES[size]}, {NAMES[method]}: "
        + ", ".join(f"{name} {value:g}" for name, value in run[f"tune.{size}.{method}"]["settings"].items())
        for size in SIZES
        for method in NAMES
        if f"tune.{size}.{method}" in run
    )
    return [
        f"Every method trains {config['steps']:,} steps with {config['batch_size']} queries each, tries {config['trials']} settings on "
        f"the validation queries, and averages {config['samples']} draws.",
        f"Chosen: {chosen}.",
    ]
