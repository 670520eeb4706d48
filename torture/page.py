"""Write docs/reliability.md: ``python -m torture.page [FILE ...]``.

Files are records of runs; they are joined into torture/results.json, from which the page follows. Without one, that file is used.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from torture import ROOT
from torture.__main__ import KINDS
from vadam import atomic

RECORD = ROOT / "torture" / "results.json"
PAGE = ROOT / "docs" / "reliability.md"
FOUND = ROOT / "torture" / "found.md"
"""What was found so far: a row is added by hand for everything that is mended."""
TITLES = {
    "answers": "Answers",
    "kills": "Kills",
    "cuts": "Cuts",
    "signals": "Signals",
    "bad_input": "Bad input",
    "numbers": "Numbers",
    "distributed": "Many ranks",
    "pages": "Pages",
    "security": "Security",
    "soak": "Soak",
}
HEAD = """# Reliability

`make torture` attacks vadam for about ten minutes: it asks the same question in other words, kills processes, interrupts steps,
cuts trainings, damages files, gives wrong arguments and extreme numbers, loses ranks, puts scripts into tables, and lets trainings
run into exceptions. Every case is repeatable: its kind, part, number and seed fix all random choices, and a failure is printed with
the command that repeats it. [What was found](#found-and-mended) stands at the end.

```text
make torture                                    about ten minutes on two cores
python -m torture --full --out FILE             the counts of this page, more than an hour
python -m torture --hours 8 --out FILE          as many as fit
python -m torture kills --out FILE --resume     one kind; other kinds in FILE stay
python -m torture --prove --out FILE            break a copy of the code, a line at a time, and see it caught
python -m torture.page FILE ...                 join records, and write this page
```

"""
LIMITS = """Two limits are torch's own. On more than two ranks DDP adds the gradients of its first step in another order than those of
later steps, so a resumed training differs in the last bits, with Adam too. And torchrun's own restarts (`--max-restarts`) cannot
connect gloo again, with or without vadam: start torchrun again instead.

"""


def page(record: dict[str, Any]) -> str:
    kinds = {name: record["kinds"][name] for name in TITLES if name in record["kinds"]}
    kinds = {name: section for name, section in kinds.items() if section["parts"]}
    parts = [HEAD, "## Figures\n\n", _table(kinds), _machines(kinds), LIMITS]
    parts += [_section(name, section) for name, section in kinds.items()]
    missing = [TITLES[name] for name in KINDS if name not in kinds]
    if missing:
        parts.append(f"## Not run yet\n\n{', '.join(missing)}.\n\n")
    parts.append(FOUND.read_text())
    return "".join(parts).rstrip() + "\n"


def _table(kinds: dict[str, Any]) -> str:
    rows = ["| kind | count | failures | minutes | commit |", "|---|---|---|---|---|"]
    for name, section in kinds.items():
        kind = import_module(f"torture.{name}").KIND
        counted = sum(part["found"]["counts"].get(kind.unit, 0) for part in section["parts"].values())
        failures = sum(len(part["failures"]) for part in section["parts"].values())
        minutes = sum(part["seconds"] for part in section["parts"].values()) / 60
        asked = "" if counted >= kind.full else f" of {kind.full:,}"
        rows.append(
            f"| [{TITLES[name]}](#{TITLES[name].lower().replace(' ', '-')}) | {counted:,}{asked} {kind.unit} | {failures} | "
            f"{minutes:.1f} | `{section['commit']}` |"
        )
    return "\n".join(rows) + "\n\n"


def _machines(kinds: dict[str, Any]) -> str:
    found = sorted(
        {", ".join(f"{name} {value}" for name, value in section["machine"].items()) for section in kinds.values()}
    )
    return f"Minutes are those of all processes together. Run on: {'; '.join(found)}.\n\n"


def _section(name: str, section: dict[str, Any]) -> str:
    kind = import_module(f"torture.{name}").KIND
    lines = [f"## {TITLES[name]}", "", kind.promise, "", "| part | found |", "|---|---|"]
    for part, progress in section["parts"].items():
        counts = ", ".join(f"{number:,} {what}" for what, number in progress["found"]["counts"].items())
        figures = "".join(f"; {what}: {value:.3g}" for what, value in progress["found"]["worst"].items())
        lines.append(f"| {part} | {counts}{figures} |")
    failures = [failure for progress in section["parts"].values() for failure in progress["failures"]]
    lines += ["", *(f"- Failed: `{failure['command']}`" for failure in failures)]
    lines += [section["remark"], ""] if section.get("remark") else []
    lines += _broken(section["broken"])
    lines += _notes(section)
    return "\n".join(lines).rstrip() + "\n\n"


def _broken(broken: list[dict[str, Any]]) -> list[str]:
    """Return what was broken on purpose, and what caught it."""
    lines = []
    for one in broken:
        caught = "not caught" if one["caught"] is None else f"caught by *{one['part']}*: {_cell(one['caught'])}"
        change = f"`{one['was']}` became `{one['broken']}`" if one["broken"] else f"`{one['was']}` was removed"
        lines.append(f"- Broken on purpose: {one['path']}, line {one['line']}: {change}. Then {one['would']}; {caught}")
    return [*lines, ""] if lines else []


def _cell(text: str) -> str:
    short = " ".join(text.split())
    return f"`{short[:160].replace('`', chr(39))}`"


def _notes(section: dict[str, Any]) -> list[str]:
    notes = [note for progress in section["parts"].values() for note in progress["found"]["notes"]]
    listed = [note for note in notes if ": " in note and not note.startswith("known")]
    lines = [*(note[0].upper() + note[1:] + "." for note in notes if note not in listed), ""] if notes else []
    if listed:
        lines += ["Licences of what vadam installs; `(extra)` is installed only with an extra.", ""]
        lines += [
            "| package | licence |",
            "|---|---|",
            *(f"| {name} | {licence} |" for name, _, licence in (n.partition(": ") for n in listed)),
        ]
    return lines


def joined(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one record of several: of each kind the last that was run, with the last lines that were broken on purpose."""
    kinds: dict[str, Any] = {}
    for record in records:
        for name, section in record["kinds"].items():
            known = kinds.get(name, section)
            ran = section if section["parts"] else known
            kinds[name] = {**ran, "broken": section["broken"] or known["broken"]}
    return {"kinds": kinds}


def main(paths: list[Path]) -> None:
    if paths:
        record = joined([json.loads(path.read_text()) for path in paths])
        atomic.write_text(RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(json.loads(RECORD.read_text())))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main([*map(Path, sys.argv[1:])])
