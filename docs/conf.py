"""Sphinx configuration. The site needs no network: equations are text, scripts and fonts are local."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parents[1] / "paper" / "src"))

import vadam
from vadam.demo import live

project = "vadam"
author = "The vadam developers"
copyright = "The vadam developers"
version = release = vadam.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "skeleton"]
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 3
smartquotes_action = "qe"  # quotes and ellipses; two dashes are an option of a command

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"vadam {release}"
html_static_path = ["_static"]
html_css_files = ["vadam.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "light_css_variables": {"color-brand-primary": "#b23a26", "color-brand-content": "#b23a26"},
    "dark_css_variables": {"color-brand-primary": "#ff8a73", "color-brand-content": "#ff8a73"},
    "navigation_with_keys": True,
}


def as_written(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Our docstrings are plain text: an indented paragraph is an equation, shown as it stands; bars and underscores are themselves."""
    shown: list[str] = []
    last, literal, session = "", False, False
    for line in lines:
        indented, blank = line.startswith(" "), not line.strip()
        literal = literal and (indented or blank)
        session = not blank and (session or line.lstrip().startswith(">>>"))
        if indented and shown and not shown[-1].strip() and not literal:
            literal = last.startswith(".. code-block")
            if last and not last.startswith((" ", "..", ":", "-")) and not last.endswith("::"):
                shown += ["::", ""]
                literal = True
        shown.append(line if literal or session or line.startswith("..") else escaped(line))
        last = last if blank else line
    lines[:] = shown


def escaped(line: str) -> str:
    prose_and_code = line.split("``")
    prose_and_code[::2] = [re.sub(r"\||(?<=\w)_(?=\W|$)", r"\\\g<0>", prose) for prose in prose_and_code[::2]]
    return "``".join(prose_and_code)


def embed_live_page(app: Any, docname: str, source: list[str]) -> None:
    source[0] = source[0].replace("{{live}}", live.fragment()) if docname == "live" else source[0]


def build_report(app: Any, exception: Exception | None) -> None:
    """Write the report of the paper's experiments into the site, for the page that embeds it."""
    if exception is None and app.builder.format == "html":
        from vadam_paper.report import build

        build(Path(__file__).parents[1] / "paper" / "results", Path(app.outdir) / "report")


def setup(app: Any) -> None:
    app.connect("build-finished", build_report)
    app.connect("source-read", embed_live_page)
    app.connect("autodoc-process-docstring", as_written, priority=900)
