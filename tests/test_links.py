"""Links between the pages of the repository lead to files and headings that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"_build", "skeleton"} & {*page.parts}]
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "examples" / "README.md", *sorted((ROOT / "paper").rglob("*.md")), *DOCS]
LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """Return a page without its code, in which brackets and number signs mean something else."""
    text = re.sub(r"^ *(```+).*?^ *\1 *$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]+`(?!\])", "", text)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: its headings as GitHub and MyST name them, and labels such as ``(d4)=``."""
    text = re.sub(r"^ *(```+).*?^ *\1 *$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    slugs = [re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-") for title in headings]
    return {*slugs, *re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)} links to {target}: no such file"
        if anchor:
            assert anchor in anchors(file), f"{name_of(page)} links to {target}: no such heading"
