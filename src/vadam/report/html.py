"""Build the few HTML elements that the pages need."""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of a page; the first cell of a row is its header."""

    caption: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def asset(name: str, package: str = "vadam.report") -> str:
    """Return the text of a file of a package."""
    return (files(package) / name).read_text(encoding="utf-8")


def text(value: object) -> str:
    """Escape a value for HTML text and attributes."""
    return escape(str(value), quote=True)


def json_script(value: Any) -> str:
    """Return JSON that is safe inside a ``<script>`` element."""
    ascii_text = json.dumps(value, separators=(",", ":"))
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", ascii_text)


def fill(template: str, **parts: str) -> str:
    """Replace each ``{{name}}`` of the template by its part; parts may contain braces."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def four_digits(value: float) -> str:
    """Return a number for people: four significant digits, and no exponent if it is of a usual size."""
    if value and not 1e-4 <= abs(value) < 1e12:
        return f"{value:.4g}"
    return f"{float(f'{value:.4g}'):.8f}".rstrip("0").rstrip(".")


def listed(items: Sequence[str]) -> str:
    """Return items as a sentence has them: "a, b and c"."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def table(content: Table) -> str:
    """Return an HTML table; cells carry their column's name, so that a narrow screen can show it."""
    if not content.rows:
        return ""
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in content.columns)
    body = "".join(_row(content.columns, row) for row in content.rows)
    return (
        '<div class="scroll"><table class="numbers" role="table">'
        f"<caption>{text(content.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def data_uri(content: bytes, kind: str) -> str:
    """Return a ``data:`` URI with the content."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _row(columns: tuple[str, ...], row: tuple[str, ...]) -> str:
    first, *rest = row
    cells = "".join(
        f'<td data-column="{text(column)}">{text(cell)}</td>' for column, cell in zip(columns[1:], rest, strict=True)
    )
    return f'<tr><th scope="row">{text(first)}</th>{cells}</tr>'
