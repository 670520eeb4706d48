"""The command ``vadam``."""

import sys


def main() -> None:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.exit('The command vadam needs typer and rich: pip install "vadam[cli]".')
    from vadam.cli.app import app

    app()
