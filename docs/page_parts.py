"""Split a page of the documentation into prose, code and figures; tests, figures and notebooks all read pages by it.

| in the page | kind | meaning |
|---|---|---|
| ```` ```python ```` | code | runs in a new namespace |
| ```` ```python continued ```` | code | runs in the namespace of the code before it |
| ```` ```python file NAME ```` | file | is written to the file NAME |
| ```` ```sh run ```` | shell | its commands run in the folder of the files |
| ```` ```{raw} html ```` with ``:file: _static/NAME.svg.html`` | figure | shows the current figure of matplotlib after the code before it |
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent

FENCE = re.compile(
    r"^```(?P<head>python|python continued|python file \S+|sh run|\{raw\} html)\n(?P<body>.*?)^```\n", re.M | re.S
)
FIGURE = re.compile(r":file: _static/([\w-]+)\.svg\.html\n")


@dataclass(frozen=True)
class Part:
    """A piece of a page; ``name`` is that of a file or a figure, ``fresh`` code starts a new namespace."""

    kind: str
    text: str
    name: str = ""
    fresh: bool = False


def parts(page: Path) -> Iterator[Part]:
    """Yield the parts of a page in their order."""
    text, end = page.read_text(), 0
    for match in FENCE.finditer(text):
        part = _part(match["head"], match["body"])
        if part is not None:
            yield Part("prose", text[end : match.start()])
            yield part
            end = match.end()
    yield Part("prose", text[end:])


def _part(head: str, body: str) -> Part | None:
    if head == "sh run":
        return Part("shell", body)
    if head.startswith("python file "):
        return Part("file", body, head.removeprefix("python file "))
    if head.startswith("python"):
        return Part("code", body, fresh=head == "python")
    figure = FIGURE.match(body)
    return Part("figure", "", figure[1]) if figure else None


def digest(code: list[str]) -> str:
    """Return a short checksum of the code that draws a figure."""
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:12]
