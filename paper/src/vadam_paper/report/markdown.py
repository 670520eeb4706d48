"""Convert the sections of an experiment's README to HTML."""

import re

from markdown_it import MarkdownIt


def sections(readme: str) -> dict[str, str]:
    """Return the HTML of each section by its heading; tables scroll on a narrow screen."""
    parts = re.split(r"^## (.+)$", readme, flags=re.MULTILINE)[1:]
    render = MarkdownIt("commonmark").enable("table").render
    return {
        heading.strip(): render(body)
        .replace("<table>", '<div class="scroll"><table>')
        .replace("</table>", "</table></div>")
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }
