"""The ``vadam`` command."""

import io
import sys


def main() -> None:
    """Run the command; explain how to install typer and rich if they are missing, and exit with code 130 on Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # letters that the terminal does not have
    try:
        run_command()
    except KeyboardInterrupt:  # before a command has begun, which explains itself what it keeps
        sys.stderr.write("Stopped. Nothing was written.\n")
        sys.exit(130)


def run_command() -> None:
    """Print the version, or start the command line if typer and rich are installed."""
    if sys.argv[1:] == ["--version"]:
        from vadam import __version__

        sys.exit(print(f"vadam {__version__}"))
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.exit('The command vadam needs typer and rich: pip install "vadam[cli]".')
    from vadam.cli.app import app

    try:
        app()
    except OSError as error:  # standard output on a full disk, for instance
        sys.exit(f"The answer cannot be written: {error}")
