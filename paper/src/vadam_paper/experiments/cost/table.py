"""The time of a training step relative to Adam."""

from vadam_paper.experiments.cost.records import milliseconds, ratio, recorded
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.tables import Table


def table(results: Results) -> Table:
    columns = ("Method", "Milliseconds per step", "Relative to Adam")
    run = results.get("text")
    if run is None:
        return Table("", columns, [])
    caption = "Processor time of one training step on one thread; the paper gives no numbers."
    rows = [(name, f"{milliseconds(run, m):.2f}", ratio(run, m, "adam").format(3)) for m, name in recorded(run).items()]
    return Table(caption, columns, rows)


def notes(results: Results) -> list[str]:
    return []
