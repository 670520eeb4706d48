"""Accuracy, log-likelihood, calibration and foreign inputs, method by method."""

import numpy as np

from vadam.experiments.image.reading import FOREIGN, NAMES, NORMS, found, values
from vadam.experiments.results import Recorded, Results
from vadam.experiments.tables import Table


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
        "On test images, means over seeds ± standard deviation. AUROC: foreign inputs told from test images by the entropy of the "
        "prediction. The last column is processor time of the training."
    )
    return Table(caption, columns, rows)


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
    return [
        f"The budget: every method sees every training image {config['epochs']} times in minibatches of {config['batch_size']}, with "
        f"one schedule; a deep ensemble’s {config['members']} members share it, and in the row with {config['members']} × the budget "
        "have it each. What a pass costs is in the last column: VOGN’s has the squares of every image’s gradient in it.",
        f"Settings were chosen by the log-likelihood of {100 * config['validation_share']:.0f} % of the training images, "
        f"{config['trials']} settings for each method; test images had no part in it. {chosen}.",
    ]


def _row(run: Recorded, norm: str, method: str) -> tuple[str, ...]:
    def show(what: str, digits: int, scale: float = 1.0) -> str:
        numbers = scale * values(run, norm, method, what)
        spread = f" ± {numbers.std(ddof=1):.{digits}f}" if len(numbers) > 1 else ""
        return f"{numbers.mean():.{digits}f}{spread}".replace("-", "−")

    return (
        f"{NORMS[norm]}, {NAMES[method]}",
        show("accuracy", 2, 100),
        show("log_likelihood", 4),
        show("ece", 2, 100),
        *(show(f"auroc_{kind}", 3) for kind in FOREIGN),
        _cost(run, norm, method),
    )


def _cost(run: Recorded, norm: str, method: str) -> str:
    if f"{norm}-adam" not in run:
        return "–"
    own, adam = (np.median(values(run, norm, m, "training_cpu_seconds")) for m in (method, "adam"))
    return f"{own / adam:.1f}" if adam else "–"
