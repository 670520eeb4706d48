"""The page of the documentation says what was recorded."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_page_is_that_of_the_recorded_results(monkeypatch) -> None:
    pytest.importorskip("vadam_paper", reason="vadam-paper is not installed: pip install ./paper")
    monkeypatch.syspath_prepend(str(ROOT))
    sys.modules.pop("benchmarks", None)
    from benchmarks.page import PAGE, README, page, readme

    assert PAGE.read_text() == page(), "run: python -m benchmarks.page"
    assert README.read_text() == readme(), "run: python -m benchmarks.page"
