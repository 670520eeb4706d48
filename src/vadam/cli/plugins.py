"""Add commands of other distributions, given as entry points of the group ``vadam.commands``.

The entry point has the name of the command and refers to a function or to a ``typer.Typer`` with subcommands. Its module
is imported for ``vadam --help`` too, so it should import slow modules such as torch inside its functions.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

import typer

from vadam.cli.errors import fail

GROUP = "vadam.commands"
PAPER_COMMANDS = ("data", "list", "report", "reproduce", "run")
PAPER_MISSING = "belongs to vadam-paper, which is not installed: pip install ./paper in a checkout of vadam."


def add_commands(app: typer.Typer, taken: set[str]) -> None:
    """Add the commands of installed distributions, except those ``taken``.

    A known command that is not installed becomes a stub that says how to install it.
    """
    found = {point.name: point for point in entry_points(group=GROUP) if point.name not in taken}
    for name, point in sorted(found.items()):
        _add(app, name, point)
    for name in PAPER_COMMANDS:
        if name not in found:
            panel = "In vadam-paper (not installed: pip install ./paper in a checkout)"
            _add_stub(app, name, "Not installed.", f"vadam {name} {PAPER_MISSING}", panel)


def _add(app: typer.Typer, name: str, point: EntryPoint) -> None:
    owner = point.dist.name if point.dist else point.module
    panel = f"From {owner}"
    try:
        command = point.load()
    except Exception as error:  # a broken plug-in must not break the other commands
        message = f"{owner} cannot be loaded ({type(error).__name__}: {error})."
        _add_stub(app, name, "Cannot be loaded.", message, panel)
        return
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(command)


def _add_stub(app: typer.Typer, name: str, short: str, message: str, panel: str) -> None:
    """Add a command that takes any arguments and fails with the message."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(name, help=short, rich_help_panel=panel, context_settings=anything)(_failing(message))


def _failing(message: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        fail(message, as_json="--json" in context.args)

    return command
