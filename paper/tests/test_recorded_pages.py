"""Pages that speak of recorded runs say what the rows say, also of runs that are under way."""

import json
import shutil
from pathlib import Path

import pytest

from recorded_pages import BLOCK, RESULTS, ROOT, filled, pages
from vadam_paper.experiments.char_lm import EXPERIMENT

PAGES = [path for path in pages() if BLOCK.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_are_up_to_date(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == filled(page), "run: make generated"


def test_long_runs_have_a_generated_page_and_readme() -> None:
    for name in ("half-cheetah", "char-lm"):
        written = [path for path in PAGES if f"<!-- progress of {name} -->" in path.read_text(encoding="utf-8")]
        assert {path.parent.name for path in written} == {"docs", name.replace("-", "_")}


def test_a_run_under_way_is_in_its_page(tmp_path: Path) -> None:
    """Two runs of `long` are recorded, one of them at its second milestone."""
    shutil.copytree(RESULTS / "char-lm" / "early-text", tmp_path / "char-lm" / "early-text")
    config, folder = EXPERIMENT.config("long", "text"), tmp_path / "char-lm" / "long-text"
    recorded = (tmp_path / "char-lm" / "early-text" / "rows.jsonl").read_text().splitlines()
    row = json.loads(recorded[0]) | {"config": config.fingerprint}
    manifest = json.loads((tmp_path / "char-lm" / "early-text" / "manifest.json").read_text())
    manifest |= {"preset": "long", "config": config.as_dict(), "config_hash": config.fingerprint, "cpu_seconds": 3600.0}
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    cells = ("sgd-0-10", "adam-0-10", "sgd-0-20")
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row | {'cell': cell})}\n" for cell in cells))
    before, after = (filled((ROOT / "docs" / "language-model.md").read_text(), root) for root in (RESULTS, tmp_path))
    how_far = "2 of 9 runs to 10 epochs, 1 of 8 runs to 20 epochs, 0 of 8 runs to 40 epochs"
    assert how_far not in before
    assert after.count(how_far) == 3  # in the list of runs, and in what would decide each of the two claims
    assert "Preset `long`. Loss" in after
    assert "Preset `early`. Loss" in after
    assert after.count("| SGD | α = 0.5, K = 80 |") == 2


def test_chosen_columns_of_a_table() -> None:
    """A number that was changed by hand comes back, and only the named columns stand there."""
    page = (
        "<!-- table of char-lm: Loss | Method | Test -->\n| Method | Test |\n|---|---|\n| SGD | 0.1 |\n<!-- end -->\n"
    )
    shown = filled(page).splitlines()
    assert shown[1:4] == ["| Method | Test |", "|---|---|", "| SGD | 1.521 ± 0.004 |"]
    assert filled(filled(page)) == filled(page) != page
