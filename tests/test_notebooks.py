"""The notebooks of the first pages have the text and the code of their pages, and were executed without an error."""

import json

import pytest
from notebooks import EXAMPLES, PAGES, cells
from page_parts import DOCS


@pytest.mark.parametrize("name", PAGES)
def test_the_notebook_is_that_of_its_page(name: str) -> None:
    found = json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"]
    sources = [{"cell_type": cell["cell_type"], "source": "".join(cell["source"])} for cell in found]
    assert sources == cells(DOCS / f"{name}.md"), "run: make notebooks"


@pytest.mark.parametrize("name", PAGES)
def test_the_notebook_was_executed(name: str) -> None:
    code = [c for c in json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = [output["output_type"] for cell in code for output in cell["outputs"]]
    assert kinds
    assert "error" not in kinds
