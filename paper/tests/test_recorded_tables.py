"""Tables in the documentation are those of the recorded results."""

from pathlib import Path

import pytest

from recorded_tables import ROOT, pages, with_tables

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_tables_of_the_documentation_are_the_recorded_ones(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path], "run: make generated"


def test_a_changed_number_is_noticed() -> None:
    page = (ROOT / "docs" / "image-classifiers.md").read_text(encoding="utf-8")
    changed = page.replace("| AdamW | ", "| AdamW | 1", 1)
    assert changed != page
    assert with_tables(changed) == page
