"""Tables: scores of each method on both sets, differences from AdamW, what was chosen, what more draws and time buy."""

from typing import Any

import numpy as np

from vadam_paper.experiments.intervals import student
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table, mean_and_deviation
from vadam_paper.experiments.vision.records import (
    FOREIGN,
    NAMES,
    PUBLIC,
    SETS,
    costs,
    draws_curves,
    lengths,
    member_curves,
    methods,
    paired,
    seeds,
    tuning,
    value,
    values,
)

SCORES = (
    ("accuracy", "Accuracy, %", 2, 100.0),
    ("nll", "NLL", 4, 1.0),
    ("brier", "Brier", 4, 1.0),
    ("ece", "ECE, %", 2, 100.0),
    ("aurc", "AURC, %", 3, 100.0),
)


def table(results: Results) -> Table:
    """Return the scores on Fashion-MNIST."""
    return _scores(results.get("text"), "fashion")


def more_tables(results: Results) -> list[Table]:
    run = results.get("text")
    if run is None:
        return []
    found = [
        _scores(run, "mnist"),
        *(_against_adamw(run, name) for name in SETS),
        _tuning(run),
        _draws(run),
        _members(run),
        _long(run),
    ]
    return [table for table in found if table.rows]


def _scores(run: Recorded | None, name: str) -> Table:
    columns = (
        "Method",
        "Seeds",
        *(title for _, title, *_ in SCORES),
        *(f"AUROC, {other}" for other in FOREIGN[name]),
        *(f"FPR95, {other}, %" for other in FOREIGN[name]),
        "AUROC by mutual information",
        "NLL, turned by 45°",
        "NLL, noise 0.3",
        "Training, × AdamW",
        "Memory, × AdamW",
    )
    rows = [] if run is None else [_row(run, name, method) for method in methods(run, name)]
    caption = (
        f"{SETS[name]}, test images: means over seeds ± standard deviation. AUROC and FPR95 say how well the entropy detects OOD "
        "images; the next column is the mean over both sets by mutual information. Training is the processor time of steps that all "
        "methods took in turn, memory the growth of the resident memory in an epoch. Settings were chosen on Fashion-MNIST for both sets."
    )
    return Table(caption, columns, rows)


def _row(run: Recorded, name: str, method: str) -> tuple[str, ...]:
    found = seeds(run, name, method)
    foreign = [[result["foreign"][other]["entropy"] for result in found] for other in FOREIGN[name]]
    return (
        NAMES[method],
        str(len(found)),
        *(mean_and_deviation(scale * values(run, name, method, what), digits) for what, _, digits, scale in SCORES),
        *(mean_and_deviation([one["auroc"] for one in each], 3) for each in foreign),
        *(mean_and_deviation([100 * one["fpr95"] for one in each], 1) for each in foreign),
        mean_and_deviation(values(run, name, method, "auroc_mi"), 3),
        mean_and_deviation([_nearest(run, result, "rotated", "rotations", 45) for result in found], 3),
        mean_and_deviation([_nearest(run, result, "noisy", "noises", 0.3) for result in found], 3),
        f"{np.median(cost):.2f}" if len(cost := costs(run, method)) else "–",
        _memory(run, name, method),
    )


def _nearest(run: Recorded, result: dict[str, Any], what: str, strengths: str, wanted: float) -> float:
    distances = [abs(strength - wanted) for strength in run.config[strengths]]
    return float(result[what][distances.index(min(distances))]["nll"])


def _memory(run: Recorded, name: str, method: str) -> str:
    base, mine = (values(run, name, one, "megabytes") for one in ("adamw", method))
    if not len(base) or not np.median(base) > 0:
        return "–"
    return f"{np.median(mine) / np.median(base):.2f}"


def _against_adamw(run: Recorded, name: str) -> Table:
    rows = []
    for method in methods(run, name):
        if method != "adamw" and len(paired(run, name, method, "adamw", "nll")):
            cells = [
                student(scale * paired(run, name, method, "adamw", what)).signed(digits)
                for what, digits, scale in (
                    ("accuracy", 2, 100),
                    ("nll", 4, 1),
                    ("ece", 2, 100),
                    ("aurc", 3, 100),
                    ("auroc", 3, 1),
                )
            ]
            rows.append((NAMES[method], *cells))
    caption = (
        f"{SETS[name]}: the difference from AdamW, seed by seed, with Student’s 95 % interval where there are seeds enough. Less is "
        "better for NLL, ECE and AURC. AUROC is the mean over both OOD sets, by entropy."
    )
    return Table(caption, ("Minus AdamW", "Accuracy, %", "NLL", "ECE, %", "AURC, %", "AUROC"), rows)


def _tuning(run: Recorded) -> Table:
    rows = []
    for method in NAMES:
        trials = [trial for trial in tuning(run, method) if trial["nll"] is not None]
        if not trials:
            continue
        furthest = max(trial["epochs"] for trial in trials)
        best = min((trial for trial in trials if trial["epochs"] == furthest), key=lambda trial: trial["nll"])
        chosen = ", ".join(f"{name} {value:g}" for name, value in best["settings"].items())
        rows.append((NAMES[method], str(len(tuning(run, method))), str(furthest), f"{best['nll']:.4f}", chosen))
    caption = (
        f"Tuning on {run.config['validation_images']:,} validation images of Fashion-MNIST: "
        f"{run.config['rungs'][0][1]} settings for each method, halved after each of the epochs "
        f"{', '.join(str(epochs) for epochs, _ in run.config['rungs'])}. The best so far."
    )
    return Table(caption, ("Method", "Cells done", "Epochs", "Validation NLL", "Settings"), rows)


def _draws(run: Recorded) -> Table:
    found = draws_curves(run)
    counts = sorted({count for curve in found.values() for count in curve})
    rows = [(NAMES[method], *(f"{curve[count]:.4f}" for count in counts)) for method, curve in found.items()]
    caption = f"Fashion-MNIST, NLL against the number of draws of the weights: first seed, {run.config['draws_images']:,} test images."
    return Table(caption, ("Draws", *map(str, counts)), rows)


def _members(run: Recorded) -> Table:
    rows = [
        (f"{SETS[name]}, {NAMES[method]}", *(f"{loss:.4f}" for loss in curve.values()))
        for name in SETS
        for method, curve in member_curves(run, name).items()
    ]
    caption = (
        "NLL against the number of networks or posteriors that are averaged, those of the first seeds. A mixture draws "
        f"{run.config['member_samples']} times from each posterior."
    )
    return Table(caption, ("Members", *(str(n) for n in range(1, run.config["members"] + 1))), rows)


def _long(run: Recorded) -> Table:
    rows = [
        (NAMES[method], str(epochs), f"{test['nll']:.4f}", f"{100 * test['ece']:.2f}", f"{value(test, 'auroc'):.3f}")
        for method, tests in lengths(run).items()
        for epochs, test in tests.items()
    ]
    caption = "Training time on Fashion-MNIST, first seed: the settings chosen for the whole training, with other numbers of epochs."
    return Table(caption, ("Method", "Epochs", "NLL", "ECE, %", "AUROC"), rows)


def notes(results: Results) -> list[str]:
    run = results.get("text")
    if run is None:
        return []
    config = run.config
    public = "; ".join(
        f"{SETS[name]}: "
        + ", ".join(f"{method} {loss:.3f} / {accuracy:.1f}" for method, (loss, accuracy) in PUBLIC[name].items())
        for name in SETS
    )
    done, whole = run.manifest["cells_done"], run.manifest["cells"]
    return [
        f"{done} of {whole} cells are done. Goes on with: vadam run vision --preset {run.preset} --out FOLDER.",
        f"The budget of every method: {config['epochs']} epochs of {config['train_images']:,} images in minibatches of "
        f"{config['batch_size']}, one schedule, {config['rungs'][0][1]} settings tried; predictions average {config['samples']} draws. "
        f"A deep ensemble and a mixture have {config['members']} networks with that budget each: those of all seeds, so that there is one "
        "of each.",
        f"Public numbers of the same network, NLL / accuracy (google/uncertainty-baselines, baselines/mnist): {public}.",
    ]
