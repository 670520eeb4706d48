"""The runner skips finished cells, resumes a stopped run, and gives the same results with two processes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.counting.config import Config, preset
from vadam_paper.experiments import Experiment, ExperimentError, runner
from vadam_paper.experiments import context as context_module
from vadam_paper.experiments.manifest import write_manifest
from vadam_paper.experiments.results import read_run
from vadam_paper.experiments.runner import run, run_folder

COUNTING = Experiment("counting", "a test", "Counting", "experiments.counting", protocols=("text",))
CONFIG: Config = preset("smoke", "text")


def results(out: Path, config: Config = CONFIG) -> dict:
    recorded = read_run(run_folder(out, config))
    assert recorded is not None
    return dict(sorted(recorded.cells.items()))


def test_manifest_says_what_was_run(tmp_path: Path) -> None:
    manifest = run(COUNTING, CONFIG, tmp_path)
    assert manifest["cells"] == manifest["cells_done"] == 4
    assert manifest["config"]["numbers"] == 4
    assert manifest["config_hash"] == CONFIG.fingerprint
    assert {"python", "torch", "numpy"} <= set(manifest["versions"])
    assert "running" not in manifest
    assert json.loads((run_folder(tmp_path, CONFIG) / "manifest.json").read_text()) == manifest


def test_manifest_has_the_time_of_all_cells_and_the_peak_memory_of_the_largest_training(tmp_path: Path) -> None:
    elapsed = {"config": CONFIG.fingerprint, "seconds": 2.0, "cpu_seconds": 1.5}
    rows = {
        str(i): {"cell": str(i), "result": {"megabytes": mb}, **elapsed} for i, mb in enumerate((80.5, 120.25, 3.0))
    }
    rows["scores"] = {"cell": "scores", "result": {"nll": 0.5}, **elapsed}
    manifest = write_manifest(tmp_path, CONFIG, rows, len(rows), jobs=1, running=False)
    assert (manifest["seconds"], manifest["cpu_seconds"], manifest["peak_megabytes"]) == (8.0, 6.0, 120.25)


def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    run(COUNTING, CONFIG, tmp_path / "one")
    seen = []
    run(COUNTING, CONFIG, tmp_path / "two", jobs=2, progress=lambda fraction, key: seen.append(fraction))
    assert results(tmp_path / "one") == results(tmp_path / "two")
    assert seen[-1] == pytest.approx(1.0)


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    stops = replace(CONFIG, fails_at=1)
    with pytest.raises(KeyboardInterrupt):
        run(COUNTING, stops, tmp_path)
    assert set(results(tmp_path, stops)) == {"cell-3", "cell-2"}  # the dearest first
    path = run_folder(tmp_path, CONFIG) / "rows.jsonl"
    path.write_text(path.read_text().replace(stops.fingerprint, CONFIG.fingerprint))
    lines = path.read_text().splitlines()
    run(COUNTING, CONFIG, tmp_path)
    assert path.read_text().splitlines()[:2] == lines  # done cells were not run again
    run(COUNTING, CONFIG, tmp_path / "whole")
    assert results(tmp_path) == results(tmp_path / "whole")


def test_a_process_that_is_killed_ends_the_run_in_words(tmp_path: Path) -> None:
    """The operating system kills processes where memory is short."""
    dies = replace(CONFIG, dies_at=0)
    with pytest.raises(ExperimentError, match="Finished cells are kept"):
        run(COUNTING, dies, tmp_path, jobs=2)
    assert "running" not in json.loads((run_folder(tmp_path, dies) / "manifest.json").read_text())


def test_a_cell_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    folder = run_folder(tmp_path, CONFIG)
    context = context_module.CellContext(CONFIG, "cell-0", folder, report=_stop_after(2 / 3))
    with pytest.raises(KeyboardInterrupt):
        COUNTING.run_cell(CONFIG, "cell-0", context)
    run(COUNTING, CONFIG, tmp_path)
    run(COUNTING, CONFIG, tmp_path / "whole")
    assert results(tmp_path)["cell-0"]["first"] == 2
    assert results(tmp_path)["cell-0"]["total"] == results(tmp_path / "whole")["cell-0"]["total"]
    assert not (folder / "checkpoints").exists()


def test_a_checkpoint_of_another_configuration_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    other = replace(CONFIG, seed=5)
    COUNTING.run_cell(other, "cell-0", context_module.CellContext(other, "cell-0", tmp_path))
    assert context_module.CellContext(CONFIG, "cell-0", tmp_path).restore() is None


def test_a_finished_run_keeps_its_manifest_and_no_resume_starts_over(tmp_path: Path) -> None:
    first = run(COUNTING, CONFIG, tmp_path)
    path = run_folder(tmp_path, CONFIG) / "rows.jsonl"
    before = path.stat().st_mtime_ns
    assert run(COUNTING, CONFIG, tmp_path) == first
    assert path.stat().st_mtime_ns == before
    run(COUNTING, CONFIG, tmp_path, resume=False)
    assert len(path.read_text().splitlines()) == 4


def test_a_manifest_left_by_a_killed_run_is_written_again(tmp_path: Path) -> None:
    run(COUNTING, CONFIG, tmp_path)
    path = run_folder(tmp_path, CONFIG) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"running": 1, "cells_done": 3}))
    assert run(COUNTING, CONFIG, tmp_path)["cells_done"] == 4


def test_jobs_below_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="--jobs"):
        run(COUNTING, CONFIG, tmp_path, jobs=0)


def test_evidence_is_not_recorded_from_changed_files_unless_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "commit", lambda: "0123456789ab+")
    assert run(COUNTING, CONFIG, tmp_path)["cells_done"] == 4  # smoke is no evidence
    config = preset("paper", "text")
    with pytest.raises(ExperimentError, match="--allow-changes"):
        run(COUNTING, config, tmp_path)
    assert read_run(run_folder(tmp_path, config)) is None
    run(COUNTING, config, tmp_path, allow_changes=True)
    rows = (run_folder(tmp_path, config) / "rows.jsonl").read_text().splitlines()
    assert {json.loads(row)["commit"] for row in rows} == {"0123456789ab+"}
    assert run(COUNTING, config, tmp_path)["cells_done"] == 4  # nothing is left to record


def test_a_refused_run_keeps_what_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = preset("paper", "text")
    monkeypatch.setattr(runner, "commit", lambda: "0123456789ab")
    run(COUNTING, config, tmp_path)
    checkpoint = context_module.checkpoint_path(run_folder(tmp_path, config), "cell-0")
    checkpoint.parent.mkdir()
    checkpoint.touch()
    monkeypatch.setattr(runner, "commit", lambda: "0123456789ab+")
    with pytest.raises(ExperimentError, match="--allow-changes"):
        run(COUNTING, config, tmp_path, resume=False)
    assert len(results(tmp_path, config)) == 4
    assert checkpoint.exists()


def _stop_after(part: float):
    def report(fraction: float) -> None:
        if fraction >= part:
            raise KeyboardInterrupt

    return report
