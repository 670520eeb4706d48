"""The ``vadam demo`` command."""

import json
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from vadam.cli.errors import exit_on_error
from vadam.cli.json_output import Json, print_json


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write the page to.")] = Path("report"), as_json: Json = False
) -> None:
    """Train the optimizers on small data that needs no download, and write a page with the results."""
    with exit_on_error(as_json):
        from vadam.cli import output_paths
        from vadam.demo import main

        output_paths.check_folder(out)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            main(out=out)
        if as_json:
            print_json({"page": str(out / "index.html"), **json.loads((out / "demo.json").read_text(encoding="utf-8"))})
