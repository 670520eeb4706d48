"""The claims ledger on the page."""

from collections import Counter

from vadam.report import html
from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.ledger import Entry, Verdict

SIGNS = {Verdict.SUPPORTED: "✓", Verdict.CONTRADICTED: "✗", Verdict.UNDECIDED: "?", Verdict.NOT_RUN: "–"}


def slug(verdict: Verdict) -> str:
    return verdict.value.replace(" ", "-")


def summary(rows: list[Entry]) -> str:
    """Return the three counts and a bar of their shares."""
    counts = Counter(entry.evidence.verdict for entry in rows)
    tiles = "".join(
        f'<li class="{slug(verdict)}"><strong>{counts[verdict]}</strong> {verdict.value}</li>' for verdict in Verdict
    )
    bar = "".join(f'<i class="{slug(verdict)}" style="flex:{counts[verdict]}"></i>' for verdict in Verdict)
    return f'<ul class="tiles">{tiles}</ul><div class="bar" aria-hidden="true">{bar}</div>{_published(rows)}'


def _published(rows: list[Entry]) -> str:
    """Return the counts of the same judges on the authors' published data, run by run."""
    found = [evidence.verdict for entry in rows for evidence in entry.shipped.values()]
    if not found:
        return ""
    counts = Counter(found)
    listed = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    claims = sum(bool(entry.shipped) for entry in rows)
    return f'<p class="count">The same judges on the data that the authors published, about {claims} of the claims: {listed}.</p>'


def ledger(rows: list[Entry], chosen: tuple[Experiment, ...]) -> str:
    counts = Counter(entry.evidence.verdict for entry in rows)
    buttons = _button("all", "All", len(rows), pressed=True) + "".join(
        _button(slug(verdict), verdict.value.capitalize(), counts[verdict], pressed=False) for verdict in Verdict
    )
    options = "".join(
        f'<option value="{html.text(experiment.name)}">{html.text(experiment.artefact)}</option>'
        for experiment in chosen
    )
    body = "".join(_row(entry) for entry in rows)
    return f"""
<div class="filters" role="group" aria-label="Filter the claims">
{buttons}
<label class="artefact">Artefact <select id="artefact"><option value="all">all</option>{options}</select></label>
</div>
<p class="count" aria-live="polite"><span id="shown">{len(rows)}</span> of {len(rows)} claims</p>
<div class="scroll"><table id="claims" role="table">
<caption class="hidden">Every claim that the paper makes in words, with what was measured</caption>
<thead><tr><th scope="col">Verdict</th><th scope="col">The paper says</th><th scope="col">Measured</th>\
<th scope="col">Authors’ published data</th></tr></thead>
<tbody>{body}</tbody></table></div>"""


def _button(value: str, label: str, count: int, *, pressed: bool) -> str:
    return (
        f'<button type="button" class="{value}" data-verdict="{value}" aria-pressed="{str(pressed).lower()}">'
        f"{label} <span>{count}</span></button>"
    )


def _row(entry: Entry) -> str:
    verdict, open_still = entry.evidence.verdict, entry.evidence.would_decide
    decide = f'<p class="decide"><b>Would decide it:</b> {html.text(open_still)}</p>' if open_still else ""
    return (
        f'<tr id="claim-{html.text(entry.claim.id)}" data-verdict="{slug(verdict)}" '
        f'data-artefact="{html.text(entry.experiment)}">'
        f"<td>{_badge(verdict)}</td>"
        f"<td><p>{html.text(entry.claim.says)}</p>"
        f'<p class="where">{html.text(entry.claim.where)} · <a href="#{html.text(entry.experiment)}">'
        f"{html.text(entry.experiment)}</a></p></td>"
        f"<td><p>{html.text(entry.evidence.text)}</p>{decide}</td>"
        f'<td class="shipped">{_shipped(entry)}</td></tr>'
    )


def _badge(verdict: Verdict) -> str:
    return f'<span class="badge {slug(verdict)}"><b aria-hidden="true">{SIGNS[verdict]}</b> {verdict.value}</span>'


def _shipped(entry: Entry) -> str:
    """Return the verdicts of the same judge on what the authors published; the numbers unfold."""
    return "".join(
        f"<details><summary>{_badge(evidence.verdict)} {html.text(label)}</summary><p>{html.text(evidence.text)}</p></details>"
        for label, evidence in entry.shipped.items()
    )
