"""Print JSON answers for machines."""

import json
import math
import sys
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: Any) -> None:
    """Write a value to standard output as indented JSON, in which NaN and infinity are null.

    Letters are escaped where standard output may not have them.
    """
    escaped = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    sys.stdout.write(json.dumps(_finite(value), indent=2, ensure_ascii=escaped, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """Return the value with None for the numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
