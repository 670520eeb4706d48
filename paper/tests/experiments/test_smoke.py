"""Every runnable experiment from its smoke preset to its table, notes and figures."""

from pathlib import Path

import pytest

from vadam_paper.data import DataNotAvailable
from vadam_paper.experiments import Experiment, experiments
from vadam_paper.experiments.ledger import Verdict, entries
from vadam_paper.experiments.results import Results, read_results, read_run
from vadam_paper.experiments.runner import run, run_folder

RUNNABLE = [experiment for experiment in experiments() if experiment.runnable]


def recorded(experiment: Experiment, out: Path) -> Results:
    for protocol in experiment.protocols:
        try:
            run(experiment, experiment.config("smoke", protocol), out)
        except DataNotAvailable as error:
            pytest.skip(f"the data are not on this machine: {error}")
    return read_results(out, experiment)


@pytest.mark.parametrize("experiment", RUNNABLE, ids=lambda experiment: experiment.name)
def test_smoke(experiment: Experiment, tmp_path: Path) -> None:
    results = recorded(experiment, tmp_path)
    assert set(results) == set(experiment.protocols)
    table = experiment.part("table").table(results)
    assert table.rows
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert all(isinstance(note, str) for note in experiment.part("table").notes(results))
    figures = experiment.part("plot").figures(results)
    assert set(figures) == set(experiment.part("plot").CAPTIONS)
    assert {entry.evidence.verdict for entry in entries(experiment, results)} == {Verdict.NOT_RUN}
    for claim in experiment.claims:  # what a smoke run shows counts for nothing, but every judge can read it
        assert claim.judge is not None
        assert claim.judge(results).text


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    experiment = next(e for e in RUNNABLE if e.name == "local-minima")
    config = experiment.config("smoke", "text")
    for folder in ("a", "b"):
        run(experiment, config, tmp_path / folder)
    first, second = (read_run(run_folder(tmp_path / folder, config)) for folder in ("a", "b"))
    assert first is not None
    assert second is not None
    assert first.cells == second.cells
