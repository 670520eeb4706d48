"""``vadam demo``."""

import json
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from vadam.cli.speech import in_words, print_json

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("report"), as_json: Json = False
) -> None:
    """Train the family on small data that needs no download, and write a page about it."""
    with in_words(as_json):
        from vadam.cli import outputs
        from vadam.demo import main

        outputs.check_folder(out)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            main(out=out)
        if as_json:
            print_json({"page": str(out / "index.html"), **json.loads((out / "demo.json").read_text(encoding="utf-8"))})
