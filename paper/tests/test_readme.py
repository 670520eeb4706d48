"""The numbers of the README and the evidence page are those of the recorded results."""

import re
from collections.abc import Callable

import pytest

from recorded_pages import RESULTS, ROOT
from vadam_paper.experiments import find
from vadam_paper.experiments.results import read_results
from vadam_paper.experiments.vision.records import values


def recorded(name: str, containing: str = "") -> dict[str, dict[str, str]]:
    """Return the first table of an experiment with this text in its caption, as rows by their first cell."""
    return {next(iter(row.values())): row for row in recorded_rows(name, containing)}


def recorded_rows(name: str, containing: str) -> list[dict[str, str]]:
    """Return the rows of the first table of an experiment with this text in its caption."""
    experiment = find(name)
    tables = experiment.tables(read_results(RESULTS, experiment))
    table = next(table for table in tables if containing in table.caption)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def number(cell: str) -> float:
    return float(re.match(r"[−-]?[\d.]+", cell)[0].replace("−", "-"))


Evidence = Callable[[str], str]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Return a function that finds the one row of the evidence page with some words in its question."""
    rows = table_rows((ROOT / "docs" / "evidence.md").read_text())

    def find_row(words: str) -> str:
        (row,) = [row for row in rows if words in row.split(" | ")[0]]
        return row

    return find_row


def table_rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| question")]


def test_the_readme_shows_rows_of_the_evidence_page() -> None:
    section = (ROOT / "README.md").read_text().partition("## When it helps")[2].partition("## What it costs")[0]
    shown = table_rows(section)
    assert len(shown) >= 4
    assert set(shown) <= set(table_rows((ROOT / "docs" / "evidence.md").read_text()))


def test_commands_of_the_evidence_name_experiments() -> None:
    named = re.findall(r"`vadam reproduce ([\w-]+)", (ROOT / "docs" / "evidence.md").read_text())
    assert len(named) > 4
    for name in named:
        assert find(name).name == name


def test_tables(evidence: Evidence) -> None:
    """The page on tables has the record of the benchmark."""
    rows = {
        cells[1].strip("* "): cells
        for line in table_rows((ROOT / "docs" / "tables.md").read_text())
        if len(cells := [cell.strip() for cell in line.split("|")]) == 7
    }
    hold = {name: cells[4].split()[0] for name, cells in rows.items()}
    others = ("MC-Dropout", "deep ensemble", "NGBoost", "CatBoost with uncertainty")
    ours = int(hold["VadamRegressor"])
    shown = [f"{hold[name]} {name.removesuffix(' with uncertainty')}" for name in others]
    assert ours > max(int(hold[name]) for name in others)  # the one in bold
    assert f"**{ours}** `VadamRegressor` | {', '.join(shown)} |" in evidence("90 % intervals")
    ranks = {name: cells[2] for name, cells in rows.items()}
    compared = (
        f"**{ranks['deep ensemble']}** deep ensemble; {ranks['MC-Dropout']} MC-Dropout, {ranks['NGBoost']} NGBoost"
    )
    assert f"| {ranks['VadamRegressor']} `VadamRegressor` | {compared} |" in evidence("mean rank by NLL")


def test_distance_to_the_exact_posterior(evidence: Evidence) -> None:
    rows = recorded("logreg-breast-cancer")
    ours, papers = rows["Beyond the paper: batch_size = 64"], rows["Fig. 1 with steps × √N, M = 64"]
    column = "Text’s protocol"
    assert f"**{number(ours[column]):.2f}** with `batch_size=64`" in evidence("Is the variance right?")
    assert f"{number(papers[column]):.2f} by the paper" in evidence("Is the variance right?")


def test_table_1(evidence: Evidence) -> None:
    rows = recorded("uci", "Beyond the table: pointwise").values()
    mixture = [row["Set"] for row in rows if "mixture" in row["ahead"]]
    one = [row for row in rows if row["ahead"].startswith("one")]
    assert f"ahead on {len(mixture)}**, one posterior on {len(one)}" in evidence("eight UCI tables")
    assert set(mixture) == {row["Set"] for row in rows} - {"Wine"}


def test_mc_dropout_of_our_own(evidence: Evidence) -> None:
    better = [row["better"].split()[0] for row in recorded_rows("uci", "the fair comparison")]
    counts = [better.count(name) for name in ("Vadam", "MC-Dropout", "both")]
    shown = "ahead in {} of 16 comparisons | ahead in {}; no significant difference in {} |".format(*counts)
    assert shown in evidence("better than MC-Dropout")


def test_intent(evidence: Evidence) -> None:
    rows = {name.removeprefix("Last layer, 100 queries an intent, "): row for name, row in recorded("intent").items()}
    auroc = {name: f"{number(row['AUROC out of scope']):.3f}" for name, row in rows.items() if "10 " not in name}
    for name, shown in {"VOGN": "VOGN", "Vadam (Theorem 1)": "Vadam", "AdamW": "AdamW"}.items():
        assert re.search(rf"{re.escape(auroc[name])}\**\s{shown}", evidence("its last layer alone"))
    for name, shown in {"IVON": "IVON", "Vadam (Theorem 1)": "Vadam"}.items():
        row = rows[name]
        assert f"{number(row['NLL']):.3f}, {row['ECE, %'].split()[0]} % {shown}" in evidence("better calibrated?")
    assert f"**{number(rows['AdamW']['NLL']):.3f}**" in evidence("better calibrated?")
    assert f"**{rows['AdamW, temperature-scaled']['ECE, %'].split()[0]} %**" in evidence("better calibrated?")


def test_lora_and_all_weights(evidence: Evidence) -> None:
    rows = recorded("intent")
    for name in ("VOGN", "Vadam (Theorem 1)", "AdamW"):
        row = rows[f"LoRA, 10 an intent, {name}"]
        shown = (
            f"{number(row['AUROC out of scope']):.3f}; {number(row['Recall out of scope, %']):.0f} % {name.split()[0]}"
        )
        assert shown in evidence("queries out of scope").replace("*", "")
    for way, words in {"LoRA": "… LoRA: NLL", "All weights": "… all weights: NLL"}.items():
        vadam, adamw = (rows[f"{way}, 10 an intent, {name}"] for name in ("Vadam (Theorem 1)", "AdamW"))
        for row, name in ((vadam, "Vadam"), (adamw, "AdamW")):
            shown = f"{number(row['NLL']):.4f}, {number(row['ECE, %']):.1f} % {name}"
            assert shown in evidence(words).replace("*", "")
    differences = recorded("intent", "The difference from AdamW")
    for way in ("LoRA", "All weights"):
        low, high = re.findall(r"[−+][\d.]+", differences[f"{way}, 10 an intent, Vadam (Theorem 1)"]["NLL"])[1:]
        assert number(low) < 0 < number(high.replace("+", ""))


def test_images(evidence: Evidence) -> None:
    rows = recorded("vision", "Fashion-MNIST, test images")
    shown_methods = ("Vadam (Theorem 1)", "AdamW", "MC-Dropout", "Last-layer Laplace")
    assert {rows[name]["Seeds"] for name in shown_methods} == {"5"}, "the row says five seeds"
    scores = ("AUROC, mnist", "AUROC, notmnist", "NLL")
    shown = {
        name: "{:.3f}, {:.3f}; {:.3f}".format(*(number(rows[name][score]) for score in scores))
        for name in shown_methods
    }
    row = evidence("notice OOD images").replace("*", "")
    assert f"| {shown['Vadam (Theorem 1)']} Vadam | {shown['AdamW']} AdamW, {shown['MC-Dropout']} MC-Dropout, " in row
    assert f"{shown['Last-layer Laplace']} last-layer Laplace" in row


def test_the_correction(evidence: Evidence) -> None:
    rows = recorded("vision", "Fashion-MNIST, test images")
    ours, papers = (rows[f"Vadam ({name})"] for name in ("Theorem 1", "paper"))
    shown = [f"{number(row['NLL']):.3f}, {number(row['Accuracy, %']):.1f} %" for row in (ours, papers)]
    assert f"| {shown[0]} with | {shown[1]} the paper's Vadam |" in evidence("correction").replace("*", "")


def test_noisy_images(evidence: Evidence) -> None:
    rows = recorded("vision", "Fashion-MNIST, test images")
    vadam, dropout, adamw = (
        f"{number(rows[name]['NLL, noise 0.3']):.3f}" for name in ("Vadam (Theorem 1)", "MC-Dropout", "AdamW")
    )
    assert f"| {vadam} Vadam | **{dropout}** MC-Dropout, {adamw} AdamW |" in evidence("noisy images")


def test_longer_training(evidence: Evidence) -> None:
    rows = {(row["Method"], row["Epochs"]): row["NLL"] for row in recorded_rows("vision", "Training time on Fashion")}
    vadam, adamw = (f"{number(rows[name, '30']):.3f}" for name in ("Vadam (Theorem 1)", "AdamW"))
    assert f"| {vadam} Vadam | **{adamw}** AdamW |" in evidence("overfit less")


def test_the_first_screen(evidence: Evidence) -> None:
    """The two strongest numbers, with the command that recorded them, stand before the instructions."""
    first = (ROOT / "README.md").read_text().partition("## Install")[0]
    rows = recorded("vision", "Fashion-MNIST, test images")
    vadam, adamw = (
        "{:.3f} and {:.3f}".format(*(number(rows[name][score]) for score in ("AUROC, mnist", "AUROC, notmnist")))
        for name in ("Vadam (Theorem 1)", "AdamW")
    )
    assert f"AUROC of **{vadam}**; trained by AdamW, with {adamw}" in first
    run = read_results(RESULTS, find("vision"))["text"]
    mixture, ensemble = (f"{values(run, 'fashion', name, 'nll')[0]:.3f}" for name in ("mixture", "deep-ensemble"))
    assert f"NLL of **{mixture}**, a deep ensemble of five {ensemble}" in first
    assert "`vadam run vision --preset paper`" in first
    assert f"**{mixture}; 0.950, 0.948** a mixture of five, by Vadam | {ensemble}; " in evidence("beat five networks")


def test_correlations(evidence: Evidence) -> None:
    rows = recorded("correlated")
    ours, bound = (number(rows[name]["USPS 3 vs 5"]) for name in ("EVON", "nearest diagonal Gaussian"))
    assert f"**{ours:.3f}** EVON | {bound:.1f} the best" in evidence("with correlations")


def test_tasks_one_after_the_other(evidence: Evidence) -> None:
    rows = recorded("posterior", "Permuted MNIST")
    names = ("Vadam, the posterior before as prior", "Adam, fine-tuned task after task", "Adam on all tasks at once")
    vadam, adam, joint = (number(rows[name]["mean accuracy after the last task"]) for name in names)
    assert f"**{vadam:.1f} %** Vadam | {adam:.1f} % Adam, fine-tuned; {joint:.1f} %" in evidence("Five tasks")


def test_pruning(evidence: Evidence) -> None:
    rows = recorded("posterior", "set to zero")
    names = ("Vadam, by signal-to-noise ratio, accuracy", "Adam, by magnitude, accuracy")
    vadam, adam = (number(rows[name]["90%"]) for name in names)
    assert f"**{vadam:.1f} %** Vadam, by signal to noise | {adam:.1f} % Adam" in evidence("weights pruned")
