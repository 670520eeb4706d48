"""The ``vadam list``, ``run``, ``reproduce`` and ``report`` commands."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vadam.cli.json_output import Json, print_json
from vadam.cli.progress import bar
from vadam_paper.cli.errors import exit_on_error

if TYPE_CHECKING:
    from vadam_paper.experiments import Experiment
    from vadam_paper.experiments.config import Config
    from vadam_paper.experiments.ledger import Entry
    from vadam_paper.experiments.results import Results

RESULTS = Path("paper/results") if Path("paper/results").is_dir() else Path("results")
"""Default folder of results: the recorded ones in a checkout."""
REPORT = Path("report")


def _names(incomplete: str) -> list[str]:
    from vadam_paper.experiments import experiments

    return [experiment.name for experiment in experiments() if experiment.name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Name of an experiment; see vadam list.", autocompletion=_names)]
Names = Annotated[list[str], typer.Argument(help="Names of experiments, or all.", autocompletion=_names)]
Preset = Annotated[
    str,
    typer.Option(
        help="smoke (seconds), quick (minutes), paper (the full protocol) or, for char-lm and half-cheetah, early (hours)."
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        help="authors (their program), text (as the paper describes it) or, for uci, best (beyond the paper)."
    ),
]
Data = Annotated[
    Path | None, typer.Option(help="Folder with the data sets. Default: VADAM_DATA, then the cache, then download.")
]
Out = Annotated[Path, typer.Option(help="Folder of the recorded results.")]
Jobs = Annotated[int, typer.Option(help="Number of processes; 0 for one per core.")]
Backend = Annotated[str, typer.Option(help="Where a sweep (uci) computes: local, or dask with --scheduler.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of the Dask scheduler, e.g. tcp://host:8786.")]
Resume = Annotated[bool, typer.Option(help="Resume an earlier run, or start over.")]
AllowChanges = Annotated[
    bool, typer.Option("--allow-changes", help="Record evidence from files that are not committed.")
]


def list_experiments(results: Out = RESULTS, as_json: Json = False) -> None:
    """Show the experiments and their recorded results."""
    with exit_on_error(as_json):
        from vadam_paper.experiments import experiments
        from vadam_paper.experiments.ledger import Verdict, entries
        from vadam_paper.experiments.results import read_results

        rows = []
        for experiment in experiments():
            recorded = read_results(results, experiment)
            verdicts = [entry.evidence.verdict.value for entry in entries(experiment, recorded)]
            rows.append(
                {
                    "name": experiment.name,
                    "artefact": experiment.artefact,
                    "title": experiment.title,
                    "runnable": experiment.runnable,
                    "protocols": list(experiment.protocols),
                    "recorded": {protocol: run.preset for protocol, run in recorded.items()},
                    "claims": len(verdicts),
                    **{verdict.value.replace(" ", "_"): verdicts.count(verdict.value) for verdict in Verdict},
                }
            )
        print_json(rows) if as_json else _show_list(rows)


def run(
    name: Name,
    preset: Preset = "quick",
    protocol: Protocol = None,
    data: Data = None,
    out: Out = RESULTS,
    jobs: Jobs = 0,
    backend: Backend = "local",
    scheduler: Scheduler = None,
    resume: Resume = True,
    allow_changes: AllowChanges = False,
    as_json: Json = False,
) -> None:
    """Run one experiment under one protocol and record its results."""
    with exit_on_error(as_json, resume_command=_same_command()):
        from vadam.cli import output_paths
        from vadam_paper.experiments import find

        output_paths.check_folder(out)
        experiment = find(name)
        cluster = (backend, scheduler)
        config = experiment.config(preset, protocol or experiment.protocols[0])
        manifest = _run(experiment, config, data, out, jobs, cluster, resume, allow_changes)
        print_json(manifest) if as_json else _show_results(experiment, out)


def reproduce(
    names: Names,
    preset: Preset = "paper",
    protocol: Protocol = None,
    data: Data = None,
    out: Out = RESULTS,
    report: Annotated[Path, typer.Option(help="Folder to write the page to.")] = REPORT,
    jobs: Jobs = 0,
    backend: Backend = "local",
    scheduler: Scheduler = None,
    resume: Resume = True,
    allow_changes: AllowChanges = False,
    as_json: Json = False,
) -> None:
    """Run experiments under every protocol, and report the results beside the paper's numbers."""
    with exit_on_error(as_json, resume_command=_same_command()):
        from vadam.cli import output_paths

        output_paths.check_folder(out)
        output_paths.check_folder(report)
        runs = {  # all of them, before the first begins
            experiment: [experiment.config(preset, one) for one in ([protocol] if protocol else experiment.protocols)]
            for experiment in _chosen(names)
        }
        for experiment, configs in runs.items():
            for config in configs:
                _run(experiment, config, data, out, jobs, (backend, scheduler), resume, allow_changes)
            if not as_json:
                _show_results(experiment, out)
        _report(out, report, as_json)


def report(
    results: Out = RESULTS,
    out: Annotated[Path, typer.Option(help="Folder to write the page to.")] = REPORT,
    as_json: Json = False,
) -> None:
    """Turn recorded results into one static page: claims ledger, figures, tables, deviations."""
    with exit_on_error(as_json):
        from vadam.cli import output_paths

        output_paths.check_folder(out)
        _report(results, out, as_json)


def _same_command() -> str:
    """Return the command to paste for resuming; it omits --no-resume."""
    return shlex.join(["vadam", *(word for word in sys.argv[1:] if word != "--no-resume")])


def _run(
    experiment: "Experiment",
    config: "Config",
    data: Path | None,
    out: Path,
    jobs: int,
    cluster: tuple[str, str | None],
    resume: bool,
    allow_changes: bool,
) -> dict[str, Any]:
    from vadam_paper.experiments import runner
    from vadam_paper.experiments.cluster import connect_workers

    processes = (os.cpu_count() or 1) if jobs == 0 else jobs
    with connect_workers(experiment, *cluster) as workers, bar(f"{experiment.name} · {config.protocol}") as move:
        how: Any = {"jobs": processes, "workers": workers, "resume": resume, "allow_changes": allow_changes}
        return runner.run(experiment, config, out, data=data, **how, progress=move)


def _chosen(names: list[str]) -> "list[Experiment]":
    from vadam_paper.experiments import experiments, find

    if names == ["all"]:
        return [experiment for experiment in experiments() if experiment.runnable]
    return [find(name) for name in names]


def _report(results: Path, out: Path, as_json: bool) -> None:
    from vadam_paper.report import build

    page = build(results, out)
    if as_json:
        print_json({"page": str(page), "ledger": str(out / "ledger.json")})
    else:
        _echo(f"The report: {page.resolve().as_uri()}")


def _show_list(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    caption = (
        "Claims: supported / contradicted / undecided / all. Recorded: protocols, with the preset if it is not paper."
    )
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    table.add_column("name", no_wrap=True, overflow="fold")
    table.add_column("what", overflow="fold")
    table.add_column("recorded", overflow="fold", max_width=17)
    table.add_column("claims", no_wrap=True)
    for row in rows:
        presets = row["recorded"].items()
        recorded = ", ".join(
            protocol if preset == "paper" else f"{protocol} ({preset})" for protocol, preset in presets
        )
        counts = "/".join(str(row[key]) for key in ("supported", "contradicted", "undecided", "claims"))
        missing = "–" if row["runnable"] else "declared, not runnable"
        table.add_row(row["name"], f"{row['artefact']}: {row['title']}", recorded or missing, counts)
    _echo(table)


def _show_results(experiment: "Experiment", out: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    from vadam_paper.experiments.ledger import Verdict, entries
    from vadam_paper.experiments.results import read_results, readable

    results = read_results(out, experiment)
    _echo(Text(f"{experiment.artefact}: {experiment.title}"))
    with readable(experiment):
        tables, notes = experiment.tables(results), experiment.notes(results)
    for content in tables:
        if not content.rows:
            continue
        table = Table(caption=Text(content.caption), caption_justify="left")
        for column in content.columns:
            table.add_column(column, overflow="fold")
        for row in content.rows:
            table.add_row(*map(Text, row))  # brackets are part of numbers, not markup
        _echo(table)
    for note in notes:
        _echo(note)
    found = entries(experiment, results)
    judged = [entry for entry in found if entry.evidence.verdict != Verdict.NOT_RUN]
    for entry in judged:
        _echo(f"[{entry.evidence.verdict}] {entry.claim.says} {entry.evidence.text}")
        if entry.evidence.would_decide and entry.evidence.verdict == Verdict.UNDECIDED:
            _echo(f"    would decide it: {entry.evidence.would_decide}")
    if not judged:
        _echo(f"No verdicts yet. {_what_is_missing(experiment, results, found)}")


def _what_is_missing(experiment: "Experiment", results: "Results", found: "list[Entry]") -> str:
    """Say what is missing for a verdict.

    If a recorded run counts as evidence, its judges say it. Otherwise name the preset and protocol that would.
    """
    if any(run.preset in experiment.judging_presets for run in results.values()):
        return " ".join(dict.fromkeys(entry.evidence.text for entry in found))
    presets, joined = " or ".join(experiment.judging_presets), " or " if experiment.sweep else " and "
    return f"They need the preset {presets} of the protocol {joined.join(experiment.protocols)}."


def _echo(what: Any) -> None:
    from rich.console import Console

    Console(highlight=False).print(what, markup=False)
