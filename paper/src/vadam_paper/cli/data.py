"""The ``vadam data list``, ``get`` and ``check`` commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from vadam.cli.json_output import Json, print_json
from vadam.cli.progress import bar
from vadam_paper.cli.errors import exit_on_error

app = typer.Typer(no_args_is_help=True, help="The data sets of the paper.")

Root = Annotated[Path | None, typer.Option("--data", help="Folder to look in first.")]


def _names(incomplete: str) -> list[str]:
    from vadam_paper.data import registry

    return [name for name in registry.DATASETS if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Name of a data set; see vadam data list.", autocompletion=_names)]


@app.command("list")
def list_sets(data: Root = None, as_json: Json = False) -> None:
    """Show the data sets and where each is found."""
    with exit_on_error(as_json):
        from vadam_paper.data import locate, registry

        rows = []
        for name, dataset in registry.DATASETS.items():
            place = locate(name, data)
            rows.append(
                {
                    "name": name,
                    "task": dataset.task,
                    "rows": dataset.n,
                    "columns": dataset.d,
                    "found": place.origin if place else None,
                    "where": place.where if place else None,
                }
            )
        if as_json:
            print_json(rows)
        else:
            _show(rows)


@app.command()
def get(name: Name, data: Root = None, as_json: Json = False) -> None:
    """Download a data set, unless it is already on this machine."""
    with exit_on_error(as_json), bar(name) as move:
        from vadam_paper.data import get as fetch

        place = fetch(name, data, progress=lambda done, total: move(done / total if total else 0.0, "download"))
        answer = {"name": name, "found": place.origin, "where": place.where}
        print_json(answer) if as_json else typer.echo(f"{name}: {place.origin}, {place.where}")


@app.command()
def check(name: Name, data: Root = None, as_json: Json = False) -> None:
    """Compare a data set with its published checksum."""
    with exit_on_error(as_json):
        from vadam_paper.data import check as compare

        place = compare(name, data)
        answer = {"name": name, "ok": True, "where": place.where}
        print_json(answer) if as_json else typer.echo(f"{name}: as published ({place.where})")


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("name", "task", "rows", "columns", "found"):
        table.add_column(column, justify="right" if column in ("rows", "columns") else "left")
    for row in rows:
        table.add_row(
            row["name"], row["task"], str(row["rows"]), str(row["columns"] or "–"), row["found"] or "download"
        )
    Console(highlight=False).print(table)
