"""The commands, each of a few lines; what they do is imported when they run, so that ``vadam --help`` is quick."""

from typing import Annotated

import typer

from vadam.cli import data, experiments, table

app = typer.Typer(
    name="vadam",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Bayesian deep learning at the price of Adam: experiments of the paper, its report, and models of tables.",
)
app.command("list")(experiments.list_experiments)
app.command("run")(experiments.run)
app.command("reproduce")(experiments.reproduce)
app.command("report")(experiments.report)
app.command("demo")(experiments.demo)
app.command("fit")(table.fit)
app.command("predict")(table.predict)
app.add_typer(data.app, name="data")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"vadam {version('vadam')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
