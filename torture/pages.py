"""Pages: hostile names and cells in the pages of report, demo and fit, in a real Chromium. They are shown as text and do nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from torture import bad_tables, processes
from torture.browser import CHROMIUM, served, show
from torture.case import Break, Case, Failed, Kind, Outcome, Part

PAGES = 6
"""Pages of one case; one browser shows them all."""
SCRIPT = "window.pwned=1;parent.pwned=1"
PAYLOADS = (
    "<script>{s}</script>",
    "</script><script>{s}</script>",
    "</title><script>{s}</script>",
    "</style><script>{s}</script>",
    "</caption></table><script>{s}</script>",
    "<img class=hostile src=x onerror={s}>",
    '"><img class=hostile src=x onerror={s}>',
    "'><svg onload={s}>",
    '" onload="{s}" x="',
    '" onmouseover="{s}" autofocus onfocus="{s}" tabindex=1 x="',
    "<svg><script>{s}</script></svg>",
    "<svg><animate onbegin={s} attributeName=x dur=1s>",
    "<iframe srcdoc='<script>{s}</script>'></iframe>",
    "<iframe src=javascript:{s}></iframe>",
    "<details open ontoggle={s}>",
    "<base href='{a}/base/'>",
    "<meta http-equiv=refresh content='0;url={a}/moved'>",
    "<link rel=stylesheet href={a}/leak.css>",
    "<img class=hostile src={a}/leak.png>",
    "<object data={a}/leak.svg></object>",
    "<form action={a}/leak><input autofocus onfocus={s}></form>",
    "<!-- ",
    "--><script>{s}</script>",
    "]]><script>{s}</script>",
    "{{{{title}}}}{{{{style}}}}",
    "$x_{{$ \\frac",
    "$\\input{{/etc/passwd}}$",
    "&lt;script&gt;{s}&lt;/script&gt;",
    "\\u003cscript\\u003e{s}\\u003c/script\\u003e",
    "javascript:{s}",
    "<scr<script>ipt>{s}</scr</script>ipt>",
    "<SCRIPT SRC={a}/leak.js></SCRIPT>",
    "<math><mtext></mtext><script>{s}</script></math>",
    "<style>@import '{a}/leak.css';</style>",
    "\u2028{s}//",
    "\u202e{s}",
    "' + {s} + '",
    "${{{s}}}",
    "%3Cscript%3E{s}%3C/script%3E",
    "<b>bold</b>",
)


END_OF_SCRIPT = f"</script><script>{SCRIPT}</script>"
"""Rows become data of the report's own scripts, where only this can run."""


def payloads(random: random.Random, count: int, address: str) -> list[str]:
    """Return different hostile texts; they load what they can from the address."""
    return [text.format(s=SCRIPT, a=address) for text in random.sample(PAYLOADS, count)]


def shown_in(text: str, answer: str) -> bool:
    return " ".join(text.split()) in " ".join(answer.split())


# The pages ---------------------------------------------------------------------------------------------------------------------


def fit_page(folder: Path, page: str, random: random.Random, address: str) -> list[str]:
    """Write the page of a fitted table whose columns, target and cells are hostile."""
    hostile = payloads(random, 6, address)
    *columns, target, cell = hostile[:5]
    rows = [
        [*(f"{(7 * k + j) % 11}" for j in range(len(columns))), (cell, hostile[5])[k % 2], f"{k % 13}"]
        for k in range(30)
    ]
    quoted = ["\t".join('"' + x.replace('"', '""') + '"' for x in row) for row in ([*columns, "kind", target], *rows)]
    table = folder / f"{page}.tsv"
    table.write_text("\n".join(quoted) + "\n")
    bad_tables.small_trainings()
    words = (table, f"--target={target}", "--out", folder / f"{page}.model", "--report", folder / page)
    code, answer = bad_tables.command("fit", *words, "--budget", 0, "--members", 1)
    if code:
        raise Failed(f"vadam fit refuses the names {hostile}: {answer['error']}")
    return [*columns, target]


def model_page(folder: Path, page: str, random: random.Random, address: str) -> list[str]:
    """Write the page of a model with hostile text in all of its parts."""
    from vadam.report import model

    hostile = payloads(random, len(PAYLOADS), address)
    half = len(hostile) // 2
    facts = model.ModelFacts(
        notes=hostile,
        columns=dict(zip(hostile[:half], hostile[half:], strict=False)),
        left_out=dict(zip(hostile[half:], hostile[:half], strict=False)),
        baselines={hostile[0]: 1.0},
        settings=dict(zip(hostile[:half], hostile[half:], strict=False)),
        importance=dict.fromkeys(hostile, 1.0),
        uncertain=[dict(zip(hostile[:5], hostile[k : k + 5], strict=False)) for k in range(5)],
        seconds=1.0,
        tuned=True,
    )
    x = np.linspace(0, 1, 20)
    levels = np.linspace(0.05, 0.95, 19)
    evaluation = model.RegressionEvaluation(hostile[1], 20, x, x + 0.1, x + 1, levels, x[:, None] + levels[None], -1.0)
    model.build(evaluation, folder / page, facts, command=hostile[2])
    return hostile


def report_page(folder: Path, page: str, random: random.Random, address: str) -> list[str]:
    """Write the report of results whose manifest and rows hold hostile text."""
    from vadam_paper.experiments import find
    from vadam_paper.experiments.runner import run, run_folder
    from vadam_paper.report import build

    experiment = find("local-minima")
    config = experiment.config("smoke", "text")
    run(experiment, config, folder / f"{page}-results")
    place = run_folder(folder / f"{page}-results", config)
    first, second, *others = payloads(random, 8, address)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest |= {"platform": others[0], "written": others[1]}
    manifest["versions"] = {"torch": second, others[2]: others[3]}
    (place / "manifest.json").write_text(json.dumps(manifest))
    lines = []
    for line in (place / "rows.jsonl").read_text().splitlines():
        row = json.loads(line) | {"commit": first}
        row["result"] = {**row["result"], others[4]: others[5]}
        lines.append(json.dumps(_with_notes(row, others[5] + END_OF_SCRIPT)))
    (place / "rows.jsonl").write_text("\n".join(lines) + "\n")
    index = build(folder / f"{page}-results", folder / f"{page}-out", (experiment, find("theory")))
    (folder / page).write_text(index.read_text())
    return [first, second]


def _with_notes(value: Any, note: str) -> Any:
    """Add a hostile entry to every object of a tree of JSON values, and to the list that becomes a script's data as it is."""
    if isinstance(value, dict):
        entries = {key: [*inner, note] if key == "stddev" else _with_notes(inner, note) for key, inner in value.items()}
        return {**entries, "note": note}
    return value


def demo_page(folder: Path, page: str, random: random.Random, address: str) -> list[str]:
    """Write the page of the demo for methods with hostile names."""
    from vadam.demo import page as demo
    from vadam.demo.regression import Score
    from vadam.demo.trainings import Results, Size

    names = [f"Vadam, {text}" for text in payloads(random, 10, address)]
    score = Score(1.0, -1.0, 0.9, None, 1.0)
    results = Results(Size(), scores={"wave": dict.fromkeys(names, score)}, complete=True)
    results.bands = {names[0]: _band()}
    out = folder / f"{page}-out"
    demo.write(results, out)
    (folder / page).write_text((out / "index.html").read_text())
    return names


def _band() -> Any:
    from vadam.demo import wave

    x = np.linspace(-8, 8, 81)
    return wave.Band(x, x, abs(x), x - 1, x + 1)


KINDS_OF_PAGES = (fit_page, model_page, demo_page, fit_page, report_page, model_page)


def hostile(case: Case) -> Outcome:
    found, names = Outcome(), [f"page-{k}.html" for k in range(PAGES)]
    if CHROMIUM is None:
        found.add("pages", PAGES)
        found.notes.append("There is no Chromium on this machine: the pages were not shown.")
        return found
    with served(case.folder) as (address, asked):
        expected = {}
        for name, write in zip(names, KINDS_OF_PAGES, strict=True):
            seed = case.random.randrange(2**31)
            expected[name] = processes.call(
                lambda write=write, name=name, seed=seed: write(case.folder, name, random.Random(seed), address),
                folder=case.folder,
            )
        answers = show(names, case.folder, address)
        for name, write in zip(names, KINDS_OF_PAGES, strict=True):
            check(f"{write.__name__} {name}", answers[name], expected[name])
            found.add("pages")
            found.add("hostile texts", len(expected[name]))
        if leaked := [path for path in asked if "leak" in path or "moved" in path or "base" in path]:
            raise Failed(f"a page asked for {leaked}")
    return found


def check(subject: str, answer: dict[str, Any], expected: list[str]) -> None:
    if answer["pwned"]:
        raise Failed(f"{subject}: hostile text ran as a script")
    if answer["inserted"] or answer["failures"]:
        raise Failed(f"{subject}: inserted {answer['inserted']}, errors {answer['failures']}")
    if missing := [text for text in expected if not shown_in(text, answer["text"])]:
        raise Failed(f"{subject}: the page does not show {missing[0]!r}")


def warm() -> None:
    bad_tables.warm()
    import vadam_paper.report.build  # noqa: F401
    from vadam_paper.experiments.manifest import commit

    commit()


KIND = Kind(
    "pages",
    "Hostile names and cells in the pages of report, demo and fit are shown as text: no script runs, nothing is loaded.",
    "pages",
    18,
    120,
    {"hostile text": Part(hostile, seconds=400)},
    warm=warm,
    breaks=(
        Break(
            "src/vadam/report/html.py",
            "    return escape(str(value), quote=True)\n",
            "    return str(value)\n",
            "hostile text",
            "a column's name in somebody's table runs as a script in the reader's browser",
        ),
        Break(
            "src/vadam/report/html.py",
            '    return re.sub("[<>&]", lambda match: f"\\\\u{ord(match[0]):04x}", ascii_text)\n',
            "    return ascii_text\n",
            "hostile text",
            "a result row that contains </script> runs as a script in the report",
        ),
    ),
)
