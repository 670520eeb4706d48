"""Files that follow from the optimizers and their rules are up to date."""

from pathlib import Path

import pytest

import vadam
from generated import ROOT, files, optimizers
from specs import SPECS


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text() == files()[path], "run: make generated"


def test_every_optimizer_is_public_and_has_a_row_and_a_page() -> None:
    for name, module in optimizers().items():
        assert getattr(vadam, name) in {spec.build for spec in SPECS}, f"{name} has no row in tests/specs.py"
        page = ROOT / "docs" / "algorithms" / f"{module.replace('_', '-')}.md"
        assert page.is_file(), f"{name} has no page {page.relative_to(ROOT)}"
        assert f"<!-- arguments of {getattr(vadam, name).rule.__name__.rsplit('.', 1)[1]} -->" in page.read_text()
    assert {spec.build.__name__ for spec in SPECS} <= {*optimizers()}
