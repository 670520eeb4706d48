"""Define the commands; the code behind them is imported when they run, so that ``vadam --help`` is fast."""

from typing import Annotated

import typer

from vadam import __version__
from vadam.cli import plugins, table
from vadam.cli.demo import demo
from vadam.cli.doctor import doctor

app = typer.Typer(
    name="vadam",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Bayesian deep learning at the price of Adam: models of tables, a demo, and the experiments of the paper.",
)
app.command("demo")(demo)
app.command("fit")(table.fit)
app.command("predict")(table.predict)
app.command("doctor")(doctor)
plugins.add_commands(app, taken={"demo", "doctor", "fit", "predict"})


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vadam {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
