"""Files that follow from the optimizers and their rules are up to date."""

from pathlib import Path

import pytest

import vadam
from generated import ROOT, algorithm_page, files, optimizers, with_optimizers
from specs import SPECS

EXPECTED = files()


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text() == EXPECTED[path], "run: make generated"


def test_every_optimizer_is_public_and_has_a_row_and_a_page() -> None:
    for name in optimizers():
        assert getattr(vadam, name) in {spec.build for spec in SPECS}, f"{name} has no row in tests/specs.py"
        page = algorithm_page(name)
        assert page.is_file(), f"{name} has no page {page.relative_to(ROOT)}"
        assert f"<!-- arguments of {getattr(vadam, name).rule.__name__.rsplit('.', 1)[1]} -->" in page.read_text()
    assert {spec.build.__name__ for spec in SPECS} <= {*optimizers()}


def test_a_new_optimizer_gets_a_row_in_the_tables() -> None:
    """A page whose table lacks an optimizer is completed, and the other rows keep their order."""
    path = ROOT / "docs" / "choosing.md"
    rows = [line for line in path.read_text().splitlines(keepends=True) if line.startswith("| [`")]
    without = path.read_text().replace(rows[1], "")
    assert without != path.read_text()
    completed = [line for line in with_optimizers(without).splitlines(keepends=True) if line.startswith("| [`")]
    assert completed == [rows[0], *rows[2:], rows[1]]
