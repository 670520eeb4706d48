"""The claims ledger on the page."""

import re
from collections import Counter

from vadam.report import html
from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.ledger import Entry, Evidence, Verdict

OPEN = (Verdict.UNDECIDED, Verdict.NOT_RUN)
MINUS = re.compile(r"(?<![\w.])-(?=\d)|(?<=\de)-(?=\d)")
"""The hyphen of a negative number or exponent."""
SIGNS = {Verdict.SUPPORTED: "✓", Verdict.CONTRADICTED: "✗", Verdict.UNDECIDED: "?", Verdict.NOT_RUN: "–"}


def would_decide(evidence: Evidence) -> str:
    """Return what would decide an open claim; empty for a decided one."""
    return evidence.would_decide if evidence.verdict in OPEN else ""


def slug(verdict: Verdict) -> str:
    return verdict.value.replace(" ", "-")


def summary(rows: list[Entry]) -> str:
    """Return the number of claims with each verdict, and a bar of their shares."""
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
    twice = sum(len(entry.shipped) > 1 for entry in rows)
    runs = f" ({twice} of them in two published runs)" if twice else ""
    return (
        f'<p class="count">The same judges on the data that the authors published give {len(found)} verdicts on {claims} of the '
        f"claims{runs}: {listed}.</p>"
    )


def of_paper(rows: list[Entry]) -> list[Entry]:
    """Return the rows about claims of the paper."""
    return [entry for entry in rows if not entry.claim.beyond_paper]


def ledger(rows: list[Entry], chosen: tuple[Experiment, ...]) -> str:
    """Return the table of the paper's claims, with its filters."""
    counts = Counter(entry.evidence.verdict for entry in rows)
    buttons = _button("all", "All", len(rows), pressed=True) + "".join(
        _button(slug(verdict), verdict.value.capitalize(), counts[verdict], pressed=False) for verdict in Verdict
    )
    there = {entry.experiment for entry in rows}
    options = "".join(
        f'<option value="{html.text(experiment.name)}">{html.text(experiment.artefact)}</option>'
        for experiment in chosen
        if experiment.name in there
    )
    caption = "Every claim that the paper makes in words, with what was measured"
    head = ("Verdict", "The paper says", "Measured", "Authors’ published data")
    body = "".join(_row(entry, f'<td class="shipped">{_shipped(entry)}</td>') for entry in rows)
    return f"""
<div class="filters" role="group" aria-label="Filter the claims">
{buttons}
<label class="artefact">Artefact <select id="artefact"><option value="all">all</option>{options}</select></label>
</div>
<p class="count" aria-live="polite"><span id="shown">{len(rows)}</span> of {len(rows)} claims</p>
{_table("claims", caption, head, body)}"""


def aims(rows: list[Entry]) -> str:
    """Return the section of aims beyond the paper; empty if there are none."""
    found = [entry for entry in rows if entry.claim.beyond_paper]
    if not found:
        return ""
    counts = Counter(entry.evidence.verdict for entry in found)
    listed = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    head = ("Verdict", "Aim", "Measured")
    table = _table("aims", "Aims beyond the paper, with what was measured", head, "".join(map(_row, found)))
    return f"""
<section id="beyond">
<header><h2>Beyond the paper</h2></header>
<p>Aims of this project that the paper does not state, judged in the same way: {listed}. They are not in the counts above.</p>
{table}
</section>"""


def _table(name: str, caption: str, head: tuple[str, ...], body: str) -> str:
    columns = "".join(f'<th scope="col">{title}</th>' for title in head)
    return f"""<div class="scroll"><table id="{name}" class="claims" role="table">
<caption class="hidden">{caption}</caption>
<thead><tr>{columns}</tr></thead>
<tbody>{body}</tbody></table></div>"""


def _button(value: str, label: str, count: int, *, pressed: bool) -> str:
    return (
        f'<button type="button" class="{value}" data-verdict="{value}" aria-pressed="{str(pressed).lower()}">'
        f"{label} <span>{count}</span></button>"
    )


def _row(entry: Entry, more: str = "") -> str:
    verdict = entry.evidence.verdict
    return (
        f'<tr id="claim-{html.text(entry.claim.id)}" data-verdict="{slug(verdict)}" '
        f'data-artefact="{html.text(entry.experiment)}">'
        f"<td>{_badge(verdict)}</td>"
        f"<td><p>{html.text(entry.claim.says)}</p>"
        f'<p class="where">{html.text(entry.claim.where)} · <a href="#{html.text(entry.experiment)}">'
        f"{html.text(entry.experiment)}</a></p></td>"
        f"<td>{_measured(entry.evidence)}</td>{more}</tr>"
    )


def _measured(evidence: Evidence) -> str:
    """Return the numbers of a verdict, and what would decide it if it is open."""
    plan = would_decide(evidence)
    decide = f'<p class="decide"><b>Would decide it:</b> {_numbers(plan)}</p>' if plan else ""
    return f"<p>{_numbers(evidence.text)}</p>{decide}"


def _numbers(text: str) -> str:
    """Return escaped text with true minus signs, at which browsers do not break lines."""
    return html.text(MINUS.sub("−", text))


def _badge(verdict: Verdict) -> str:
    return f'<span class="badge {slug(verdict)}"><b aria-hidden="true">{SIGNS[verdict]}</b> {verdict.value}</span>'


def _shipped(entry: Entry) -> str:
    """Return the verdicts of the same judge on what the authors published; the numbers unfold."""
    if not entry.shipped:
        return '<p class="absent">none about it</p>'
    return "".join(
        f"<details><summary>{_badge(evidence.verdict)} {html.text(label)}</summary>{_measured(evidence)}</details>"
        for label, evidence in entry.shipped.items()
    )
