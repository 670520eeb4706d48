"""The three studies in numbers: means over seeds, with standard errors."""

import math

import numpy as np

from vadam_paper.experiments.posterior.records import (
    CONTINUAL,
    FRACTIONS,
    MERGING,
    PRUNING,
    continual,
    merging,
    pruning,
)
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table

OVER_SEEDS = "Mean ± standard error over the seeds."


def table(results: Results) -> Table:
    """Return the table of permuted MNIST."""
    run = results["text"]
    columns = (
        "Method",
        "mean accuracy after the last task",
        "first task then",
        "last task then",
        "each when it was learned",
    )
    rows = []
    for method, name in CONTINUAL.items():
        after = continual(run, method)
        if not len(after):
            continue
        learned = continual(run, method, "when_learned").mean(1)
        parts = (after.mean(1), after[:, 0], after[:, -1], learned)
        rows.append((name, *(_percent(part) for part in parts[: 3 if method == "joint" else 4])))
    tasks, epochs, images = (run.config[key] for key in ("tasks", "continual_epochs", "train_images"))
    caption = (
        f"Permuted MNIST: {tasks} tasks one after the other, {images:,} images each, {epochs} epochs, an MLP with "
        f"{run.config['hidden']} hidden units. {OVER_SEEDS}"
    )
    return Table(caption, columns, [row if len(row) == 5 else (*row, "–") for row in rows])


def more_tables(results: Results) -> list[Table]:
    run = results["text"]
    return [_merging(run), _pruning(run)]


def _merging(run: Recorded) -> Table:
    rows = []
    for name, label in MERGING.items():
        accuracy, log_likelihood = (merging(run, name, what) for what in ("accuracy", "log_likelihood"))
        if len(accuracy):
            rows.append((label, _percent(accuracy), _nats(log_likelihood)))
    caption = (
        f"Networks of two halves of MNIST, {run.config['train_images']:,} images each, {run.config['merging_epochs']} epochs from the "
        f"same initial weights. {OVER_SEEDS}"
    )
    return Table(caption, ("Network", "accuracy", "log-likelihood"), rows)


def _pruning(run: Recorded) -> Table:
    rows = []
    for (method, by), label in PRUNING.items():
        for what, text in (("accuracy", _percent), ("log_likelihood", _nats)):
            found = pruning(run, method, by, what)
            if len(found):
                rows.append((f"{label}, {what.replace('_', '-')}", *(text(column) for column in found.T)))
    caption = (
        f"LeNet-5 on Fashion-MNIST, {run.config['train_images']:,} images, {run.config['pruning_epochs']} epochs, with a fraction of its "
        f"weights set to zero and no training afterwards. {OVER_SEEDS}"
    )
    return Table(caption, ("Pruned", *(f"{fraction:.0%}" for fraction in FRACTIONS)), rows)


def notes(results: Results) -> list[str]:
    run = results["text"]
    found = []
    for key in sorted(key for key in run.cells if ".tune." in key):
        settings = ", ".join(f"{name} {value:g}" for name, value in run[key]["settings"].items())
        found.append(f"{key.replace('.tune.', ' ')}: {settings}")
    return [f"Settings chosen on validation images: {'; '.join(found)}."] if found else []


def _percent(values: np.ndarray) -> str:
    return f"{100 * values.mean():.1f} ± {100 * _error(values):.1f} %"


def _nats(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {_error(values):.3f}"


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
