"""Write the page and the files beside it."""

import json
from collections import Counter
from pathlib import Path

from vadam import atomic
from vadam.report import html
from vadam_paper.experiments import experiments
from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.ledger import Entry, Verdict, entries
from vadam_paper.experiments.results import Results, read_results
from vadam_paper.report import artefact, claims


def build(results: Path, out: Path, chosen: tuple[Experiment, ...] | None = None) -> Path:
    """Read ``results/<experiment>/<preset>-<protocol>``, write the page and return its path."""
    chosen = experiments() if chosen is None else chosen
    recorded = {experiment.name: read_results(results, experiment) for experiment in chosen}
    rows = [entry for experiment in chosen for entry in entries(experiment, recorded[experiment.name])]
    of_paper = claims.of_paper(rows)
    sections = [artefact.section(experiment, recorded[experiment.name], out / "figures") for experiment in chosen]
    page = html.fill(
        html.asset("page.html", "vadam_paper.report"),
        style=html.asset("page.css"),
        script=html.asset("page.js", "vadam_paper.report"),
        summary=claims.summary(of_paper),
        navigation=_navigation(chosen, recorded),
        ledger=claims.ledger(of_paper, chosen),
        aims=claims.aims(rows),
        sections="\n".join(sections),
        provenance=_provenance(recorded),
    )
    index = out / "index.html"
    atomic.write_text(index, page)
    atomic.write_text(out / "ledger.json", json.dumps(as_json(rows), indent=2, ensure_ascii=False) + "\n")
    return index


def as_json(rows: list[Entry]) -> dict[str, object]:
    """Return the ledger as JSON; the counts are those of the paper's claims."""
    counts = Counter(entry.evidence.verdict for entry in claims.of_paper(rows))
    return {
        "counts": {verdict.value: counts[verdict] for verdict in Verdict},
        "claims": [
            {
                "id": entry.claim.id,
                "experiment": entry.experiment,
                "artefact": entry.artefact,
                "where": entry.claim.where,
                "beyond_paper": entry.claim.beyond_paper,
                "claim": entry.claim.says,
                "evidence": entry.evidence.text,
                "verdict": entry.evidence.verdict.value,
                "would_decide": claims.would_decide(entry.evidence),
                "published_data": {
                    label: {
                        "verdict": evidence.verdict.value,
                        "evidence": evidence.text,
                        "would_decide": claims.would_decide(evidence),
                    }
                    for label, evidence in entry.shipped.items()
                },
            }
            for entry in rows
        ],
    }


def _navigation(chosen: tuple[Experiment, ...], recorded: dict[str, Results]) -> str:
    return "".join(
        f'<a href="#{html.text(experiment.name)}">{html.text(experiment.artefact)}</a>'
        for experiment in chosen
        if recorded[experiment.name]
    )


def _provenance(recorded: dict[str, Results]) -> str:
    runs = [run for results in recorded.values() for run in results.values()]
    if not runs:
        return "No results are recorded yet: run <code>vadam reproduce theory</code> and build the page again."
    commits = sorted(set().union(*(run.commits for run in runs)))
    versions = sorted({f"torch {run.manifest['versions']['torch']}" for run in runs})
    minutes = sum(run.manifest["seconds"] for run in runs) / 60
    return html.text(
        f"Built from {len(runs)} recorded runs ({minutes:.0f} minutes of work in all; {', '.join(versions)}; "
        f"commits that made the rows, or with which they landed: {', '.join(commits)})."
    )
