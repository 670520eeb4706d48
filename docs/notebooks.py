"""Write the first pages of the documentation as executed notebooks into examples/: make notebooks.

A notebook has the prose and the code of its page. tests/test_notebooks.py compares the two, without running them again.
"""

import re
from pathlib import Path
from typing import Any

from page_parts import DOCS, parts

PAGES = ("start", "regression", "classification", "selective-prediction", "tables")
EXAMPLES = DOCS.parent / "examples"


def cells(page: Path) -> list[dict[str, str]]:
    """Return type and source of the cells of a page; figures are left out, because running the code draws them."""
    found = []
    for part in parts(page):
        if part.kind == "code":
            found.append({"cell_type": "code", "source": part.text.strip()})
        elif part.kind == "prose" and (text := for_notebook(part.text)):
            found.append({"cell_type": "markdown", "source": text})
    return found


def for_notebook(prose: str) -> str:
    """Return prose without directives of Sphinx, with links that start in examples/."""
    prose = re.sub(r"^:::.*\n", "", prose, flags=re.MULTILINE)
    prose = re.sub(r"\]\((?!https?:|#)([\w/-]+\.md)", r"](../docs/\1", prose)
    return prose.strip()


def notebook(page: Path) -> Any:
    """Return the notebook of a page, not yet executed."""
    from nbformat import v4

    made = v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    for number, cell in enumerate(cells(page)):
        new = v4.new_code_cell if cell["cell_type"] == "code" else v4.new_markdown_cell
        made.cells.append(new(cell["source"], id=f"cell-{number}"))
    return made


def write(page: Path, folder: Path) -> None:
    """Execute the notebook of a page in a kernel of its own and write it into a folder."""
    import tempfile

    import nbformat
    from nbclient import NotebookClient

    made = notebook(page)
    with tempfile.TemporaryDirectory() as scratch:
        NotebookClient(made, timeout=300, resources={"metadata": {"path": scratch}}, record_timing=False).execute()
    made.metadata.pop("language_info", None)
    nbformat.write(made, folder / f"{page.stem}.ipynb")
    print(f"{page.stem}.ipynb")


if __name__ == "__main__":
    for name in PAGES:
        write(DOCS / f"{name}.md", EXAMPLES)
