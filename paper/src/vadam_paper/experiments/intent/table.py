"""Tables: scores of each method, differences from AdamW, chosen settings."""

import numpy as np

from vadam_paper.experiments.intent.records import NAMES, PARTS, chosen, paired, seeds, values
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
        else [_row(run, part, method) for part in PARTS for method in NAMES if seeds(run, part, method)]
    )
    caption = (
        "Test queries of 150 intents and queries out of scope: means over seeds ± standard deviation. AUROC says how well the entropy "
        "tells queries out of scope; recall is the share of them that is refused when 95 % of the test queries are answered."
    )
    return Table(caption, ("Trained, method", "Seeds", *(title for _, title, *_ in SCORES), "Training, × AdamW"), rows)


def _row(run: Recorded, part: str, method: str) -> tuple[str, ...]:
    found = [mean_and_deviation(scale * values(run, part, method, what), digits) for what, _, digits, scale in SCORES]
    ours, theirs = (values(run, part, one, "cpu_seconds") for one in (method, "adamw"))
    cost = f"{np.median(ours) / np.median(theirs):.2f}" if len(theirs) and np.median(theirs) > 0 else "–"
    return (f"{PARTS[part]}, {NAMES[method]}", str(len(seeds(run, part, method))), *found, cost)


def more_tables(results: Results) -> list[Table]:
    run = results.get("text")
    return [] if run is None else [_against_adamw(run)]


def _against_adamw(run: Recorded) -> Table:
    shown = (("accuracy", 2, 100), ("nll", 4, 1), ("ece", 2, 100), ("auroc", 4, 1), ("recall", 1, 100))
    rows = [
        (
            f"{PARTS[part]}, {NAMES[method]}",
            *(
                student(scale * paired(run, part, method, "adamw", what)).signed(digits)
                for what, digits, scale in shown
            ),
        )
        for part in PARTS
        for method in NAMES
        if method != "adamw" and len(paired(run, part, method, "adamw", "nll"))
    ]
    columns = ("Minus AdamW", "Accuracy, %", "NLL", "ECE, %", "AUROC", "Recall, %")
    return Table("The difference from AdamW, seed by seed, with Student’s 95 % interval.", columns, rows)


def notes(results: Results) -> list[str]:
    run = results.get("text")
    if run is None:
        return []
    config = run.config
    settings = "; ".join(
        f"{PARTS[part]}, {NAMES[method]}: "
        + ", ".join(f"{name} {value:g}" for name, value in chosen(run, part, method).items())
        for part in PARTS
        for method in NAMES
        if chosen(run, part, method)
    )
    return [
        f"On the last layer every method trains {config['steps']:,} steps with {config['batch_size']} queries each, tries "
        f"{config['trials']} settings on the validation queries, and averages {config['samples']} draws. LoRA and all weights are "
        "trained by the Hugging Face Trainer, with fewer settings and draws.",
        f"Chosen: {settings}.",
    ]
