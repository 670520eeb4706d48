"""The results recorded in the repository: complete, of this version, and beside the paper's numbers."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from vadam_paper.experiments import Experiment, experiments, find
from vadam_paper.experiments.intervals import quartiles
from vadam_paper.experiments.ledger import Verdict, entries
from vadam_paper.experiments.results import Recorded, read_results

ROOT = Path(__file__).parents[2] / "results"
RECORDED = [experiment for experiment in experiments() if (ROOT / experiment.name).is_dir()]

pytestmark = pytest.mark.skipif(not RECORDED, reason="no results are recorded here")


def paper(name: str, protocol: str = "authors") -> Recorded:
    recorded = read_results(ROOT, find(name)) if (ROOT / name).is_dir() else {}
    if protocol not in recorded:
        pytest.skip(f"{name}, protocol {protocol}, is not recorded here")
    return recorded[protocol]


@pytest.mark.parametrize("experiment", RECORDED, ids=lambda experiment: experiment.name)
def test_recorded_by_this_version_with_the_paper_preset(experiment: Experiment) -> None:
    results = read_results(ROOT, experiment)
    assert set(results) == {folder.name.rsplit("-", 1)[1] for folder in (ROOT / experiment.name).iterdir()}
    assert set(results) <= set(experiment.protocols)
    for run in results.values():
        assert run.preset in experiment.presets[experiment.presets.index(experiment.judged_from) :]
        if not experiment.sweep:  # a sweep is recorded as far as it goes
            assert run.manifest["cells_done"] == run.manifest["cells"]
            assert "running" not in run.manifest


def test_recorded_results_are_small() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and "checkpoints" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 2_000_000


@pytest.mark.parametrize("method", ["Vadam", "VOGN-1"])
def test_figure_2a(method: str) -> None:
    """The figure's one run lies within three standard deviations of our twenty, in every number of its ellipse."""
    run = paper("logreg-toy")
    figure = find("logreg-toy").part("table").PAPER[method]
    ours = run[{"Vadam": "vadam", "VOGN-1": "vogn-1"}[method]]
    for what in ("mean", "stddev"):
        values = np.asarray(ours[what])
        assert np.all(np.abs(values.mean(0) - figure[what]) < 3 * values.std(0, ddof=1)), (what, values.mean(0))


def test_figure_2a_exact() -> None:
    """The figure's MF-Exact stops at a tolerance of 1e-4 on a bound: it is within 2 % of the optimum."""
    exact = paper("logreg-toy")["mf-exact"]
    figure = find("logreg-toy").part("table").PAPER["MF-Exact"]
    assert exact["mean"] == pytest.approx(figure["mean"], rel=0.02)
    assert exact["stddev"] == pytest.approx(figure["stddev"], rel=0.02)


def test_the_boxes_of_figure_2b_cannot_tell_the_spreads_apart() -> None:
    """Quartiles alone leave open what values in pairs support."""
    (found,) = [
        e
        for e in entries(find("logreg-usps"), read_results(ROOT, find("logreg-usps")))
        if e.claim.id == "usps-variance"
    ]
    assert found.evidence.verdict == Verdict.SUPPORTED
    assert found.shipped["boxes"].verdict == Verdict.UNDECIDED
    assert "Vadam 0.0118" in found.shipped["boxes"].text


def test_figure_2b_exact_log_loss() -> None:
    figure = find("logreg-usps").part("table").PAPER["MF-Exact"]["log_loss"]
    assert quartiles(paper("logreg-usps")["mf-exact"]["log_loss"]) == pytest.approx(figure, abs=0.0005)


@pytest.mark.parametrize("method", ["Vadam", "VOGN-1"])
@pytest.mark.parametrize("metric", ["nelbo", "log_loss", "kl"])
def test_figure_2b(method: str, metric: str) -> None:
    """With the same 20 splits and other random numbers, medians lie within the figure's boxes."""
    low, _, high = find("logreg-usps").part("table").PAPER[method][metric]
    median = quartiles(paper("logreg-usps")[method.lower()][metric])[1]
    assert low <= median <= high


@pytest.mark.parametrize("M", [1, 8, 16, 32, 64])
def test_figure_2c(M: int) -> None:
    """The figure's median lies within the spread of our 20 runs."""
    kl = paper("logreg-breast-cancer")[f"vadam-M{M}"]["kl"]
    assert min(kl) <= find("logreg-breast-cancer").part("table").MEDIANS[M] <= max(kl)


def test_figure_2c_vogn() -> None:
    kl = paper("logreg-breast-cancer")["vogn-1"]["kl"]
    assert min(kl) <= 0.871 <= max(kl)


def test_figure_2c_text_has_not_converged() -> None:
    run = paper("logreg-breast-cancer", "text")
    for M in (8, 16, 32, 64):
        assert np.median(run[f"vadam-M{M}"]["kl"]) > 25
        assert np.median(run[f"vadam-larger-steps-M{M}"]["kl"]) < 15


@pytest.mark.parametrize("cell", list(find("australian").part("table").PAPER["end"]))
def test_figure_3_left(cell: str) -> None:
    """The shipped single run lies within four standard deviations over seeds, and 0.05 bits, of our mean."""
    end = np.asarray(paper("australian")[cell]["joint"]["end"])
    shipped = find("australian").part("table").PAPER["end"][cell]
    assert abs(end.mean() - shipped) < 4 * end.std(ddof=1) + 0.05


OPEN = (Verdict.UNDECIDED, Verdict.NOT_RUN)


@pytest.mark.parametrize("experiment", RECORDED, ids=lambda experiment: experiment.name)
def test_an_open_claim_says_what_would_decide_it_and_a_decided_one_does_not(experiment: Experiment) -> None:
    """Also in the data that the authors published; in numbers, unless another experiment is needed."""
    for entry in entries(experiment, read_results(ROOT, experiment)):
        for evidence in (entry.evidence, *entry.shipped.values()):
            assert bool(evidence.would_decide) == (evidence.verdict in OPEN), entry.claim.id
            assert not evidence.would_decide.startswith("More seeds"), entry.claim.id


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


ROWS = sorted(ROOT.glob("*/*/rows.jsonl"))


@pytest.mark.parametrize("path", ROWS, ids=lambda path: f"{path.parents[1].name}-{path.parent.name}")
def test_every_row_names_a_commit(path: Path) -> None:
    """A row names the commit of the code that made it, or the commit with which it landed; each is in the history.

    So does the manifest, whose commit is that of the last write; the older ones were written from changed files.
    """
    commits = {row.get("commit") or row.get("landed") for row in rows_of(path)}
    assert None not in commits
    manifest = json.loads((path.parent / "manifest.json").read_text(encoding="utf-8"))
    commits.add((manifest["commit"] or manifest["landed"]).removesuffix("+"))
    assert all(re.fullmatch(r"[0-9a-f]{12}", commit) for commit in commits)
    git = shutil.which("git")
    whole = git and subprocess.run(
        [git, "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True
    )
    if not whole or whole.stdout.strip() != "false":
        pytest.skip("the history is not here")
    for commit in commits:
        ancestor = subprocess.run([git, "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, capture_output=True)
        assert ancestor.returncode == 0, commit
