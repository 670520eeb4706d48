r"""Write recorded numbers into the pages that speak of them: pages of docs/ and READMEs of experiments.

    python paper/tests/recorded_pages.py      writes the pages; paper/tests/test_recorded_pages.py compares them

What follows from rows of ``paper/results`` stands in a page between two comments. So a run that goes on changes its page by this
program, never by hand.

| comment before it | what stands there |
|---|---|
| ``<!-- progress of NAME -->`` | how far each recorded run of the experiment is, and how many claims have which verdict |
| ``<!-- tables of NAME -->`` | the tables of each recorded run, one preset after the other |
| ``<!-- table of NAME: CAPTION \| COLUMN \| … -->`` | some columns of the table whose caption starts so |
| ``<!-- notes of NAME -->`` | the notes below the experiment's tables |
| ``<!-- claims of NAME -->`` | its claims with their verdicts, and what would decide those that are open |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vadam_paper.experiments import Experiment, experiments, find
from vadam_paper.experiments.ledger import entries
from vadam_paper.experiments.progress import progress
from vadam_paper.experiments.results import Results, read_results
from vadam_paper.experiments.tables import Table
from vadam_paper.experiments.verdicts import Verdict

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "paper" / "results"
BLOCK = re.compile(
    r"<!-- (?P<kind>progress|tables|table|notes|claims) of (?P<name>[\w-]+)(: (?P<which>.+?))? -->\n.*?<!-- end -->\n",
    flags=re.DOTALL,
)


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that may have recorded numbers."""
    return [*sorted((root / "docs").glob("*.md")), *(experiment.folder / "README.md" for experiment in experiments())]


def filled(page: str, results: Path = RESULTS) -> str:
    """Return a page with its recorded numbers."""

    def block(found: re.Match[str]) -> str:
        experiment = find(found["name"])
        recorded = read_results(results, experiment)
        which = found["which"]
        text = _columns(experiment, recorded, which) if which else BLOCKS[found["kind"]](experiment, recorded)
        return f"{found[0].splitlines()[0]}\n{text}<!-- end -->\n"

    return BLOCK.sub(block, page)


def _progress(experiment: Experiment, results: Results) -> str:
    counts = Counter(entry.evidence.verdict for entry in entries(experiment, results))
    verdicts = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    runs = "".join(f"- {_capital(str(progress(experiment, run)))}.\n" for run in results.runs)
    return f"{runs or f'Nothing of `{experiment.name}` is recorded.' + chr(10)}\nClaims: {verdicts}.\n"


def _tables(experiment: Experiment, results: Results) -> str:
    runs = sorted(results.runs, key=lambda run: experiment.presets.index(run.preset))
    return "\n".join(
        f"Preset `{run.preset}`. {_table(table)}"
        for run in runs
        for table in experiment.tables(Results({run.protocol: run}))
        if table.rows
    )


def _columns(experiment: Experiment, results: Results, which: str) -> str:
    start, *columns = which.split(" | ")
    found = [table for table in experiment.tables(results) if table.caption.startswith(start) and table.rows]
    if not found:
        return "Nothing is recorded yet.\n"
    chosen = [found[0].columns.index(column) for column in columns]
    return _rows(columns, [tuple(row[i] for i in chosen) for row in found[0].rows])


def _table(table: Table) -> str:
    return f"{table.caption}\n\n{_rows(table.columns, table.rows)}"


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _notes(experiment: Experiment, results: Results) -> str:
    return "\n".join(f"{note}\n" for note in experiment.notes(results))


def _claims(experiment: Experiment, results: Results) -> str:
    rows = ""
    for entry in entries(experiment, results):
        evidence = entry.evidence
        decide = evidence.would_decide if evidence.verdict in (Verdict.UNDECIDED, Verdict.NOT_RUN) else ""
        rows += f"| {entry.claim.says} | {evidence.verdict.value} | {decide} |\n"
    return f"| claim | verdict | what would decide it |\n|---|---|---|\n{rows}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


BLOCKS: dict[str, Callable[[Experiment, Results], str]] = {
    "progress": _progress,
    "tables": _tables,
    "notes": _notes,
    "claims": _claims,
}

if __name__ == "__main__":
    for path in pages():
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
