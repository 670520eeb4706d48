"""Tables: KL on logistic regression, correlations on a small network, scores of LeNet-5."""

import numpy as np

from vadam_paper.experiments.correlated.records import (
    NAMES,
    SCORES,
    SET_NAMES,
    best,
    rate,
    scores,
    settings,
    validation,
)
from vadam_paper.experiments.intervals import student
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.tables import Table


def table(results: Results) -> Table:
    columns = ("Method", *SET_NAMES.values())
    run = results.get("text")
    if run is None:
        return Table("", columns, [])
    exact = {name: run[f"logistic.{name}.exact"] for name in SET_NAMES}
    rows = [
        (label, *(f"{found[key]:.3g}" for found in exact.values()))
        for label, key in (("nearest diagonal Gaussian", "nearest_diagonal_kl"), ("MF-Exact", "mean_field_kl"))
    ]
    for method, label in NAMES.items():
        rows.append((label, *(student(best(run, name, method, "kl")).format(3) for name in SET_NAMES)))
    caption = f"KL(q‖exact full Gaussian) in nats, means over {run.config['seeds']} seeds with 95 % intervals."
    return Table(caption, columns, rows)


def more_tables(results: Results) -> list[Table]:
    run = results.get("text")
    if run is None:
        return []
    full = run["network.full"]
    compared = {NAMES[m]: run[f"network.{m}"] for m in ("ivon", "evon")}
    network = [
        (
            label,
            student(found["kl"]).format(3),
            student(found["rmse_inside"]).format(3),
            f"{np.mean(found['rmse']):.3f}",
        )
        for label, found in compared.items()
    ]
    network += [
        ("nearest diagonal Gaussian", f"{full['nearest_diagonal_kl']:.3g}", "–", "–"),
        ("nearest Gaussian with independent tensors", f"{full['nearest_blocks_kl']:.3g}", "–", "–"),
    ]
    lenet = [
        (
            label,
            *(student(scores(run, method, what)).format(4) for what in SCORES),
            f"{np.mean(scores(run, method, 'training_cpu_seconds')):.0f}",
        )
        for method, label in NAMES.items()
        if method in ("ivon", "evon")
    ]
    return [
        Table(
            "A network of 49 weights: KL to FullVON's Gaussian, and the root mean square difference of the correlations.",
            ("Method", "KL", "inside a tensor", "all pairs"),
            network,
        ),
        Table(
            f"LeNet-5 on {run.config['train_images']:,} images of Fashion-MNIST, {run.config['epochs']} epochs.",
            ("Method", *SCORES.values(), "training, seconds"),
            lenet,
        ),
    ]


def notes(results: Results) -> list[str]:
    run = results.get("text")
    if run is None:
        return []
    tried = ", ".join(f"{r:g}" for r in run.config["rates"])
    chosen = "; ".join(
        f"{label}: {', '.join(f'{NAMES[m]} {rate(run, name, m):g}' for m in NAMES)}"
        for name, label in SET_NAMES.items()
    )
    losses = "; ".join(f"{NAMES[m]} {', '.join(f'{x:.3f}' for x in validation(run, m))}" for m in ("ivon", "evon"))
    setting = ", ".join(f"{name} = {value:g}" for name, value in settings(run).items())
    return [
        f"Every method tried the rates {tried} on each set; the one with the largest mean ELBO of the training rows counts ({chosen}).",
        f"LeNet-5: validation NLL of all settings: {losses}. Both are tested with the setting that is best for IVON, {setting}.",
    ]
