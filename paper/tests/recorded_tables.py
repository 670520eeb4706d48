"""Write tables of recorded results into the documentation.

    python paper/tests/recorded_tables.py      writes the pages; test_recorded_tables.py compares them

A table stands between ``<!-- recorded EXPERIMENT: CAPTION | COLUMN | … -->`` and ``<!-- end -->``. It is the experiment's first
table whose caption contains CAPTION, with the named columns.
"""

import re
from pathlib import Path

from vadam_paper.experiments import find
from vadam_paper.experiments.results import read_results
from vadam_paper.experiments.tables import Table

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- recorded (?P<name>[\w-]+): (?P<caption>[^|]+?) \| (?P<columns>.+?) -->\n).*?(?=<!-- end -->)", re.S)


def recorded_table(name: str, caption: str = "") -> Table:
    """Return the first table of an experiment whose caption contains a text."""
    experiment = find(name)
    tables = experiment.tables(read_results(ROOT / "paper" / "results", experiment))
    return next(table for table in tables if caption in table.caption)


def with_tables(page: str) -> str:
    """Return a page with its tables as they are recorded now."""
    return BLOCK.sub(lambda found: found[1] + _markdown(found["name"], found["caption"], found["columns"]), page)


def _markdown(name: str, caption: str, columns: str) -> str:
    table = recorded_table(name, caption)
    chosen = [table.columns.index(column) for column in columns.split(" | ")]
    head = [table.columns[i] for i in chosen]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *([row[i] for i in chosen] for row in table.rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def pages() -> dict[Path, str]:
    """Return the text that each page with a recorded table should have."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
    return {path: with_tables(text) for path, text in texts.items() if BLOCK.search(text)}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
