"""Sphinx configuration. The site needs no network: equations are text, scripts and fonts are local."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import vadam

project = "vadam"
author = "The vadam developers"
copyright = "The vadam developers"
version = release = vadam.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False

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


def equations_as_literal_blocks(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """In our docstrings an indented paragraph is an equation or a table of names: it is shown as it stands."""
    shown: list[str] = []
    last = ""
    for line in lines:
        starts_block = line.startswith(" ") and shown and not shown[-1].strip()
        if starts_block and last and not last.startswith((" ", "..", ":", "-", ">>>")) and not last.endswith("::"):
            shown += ["::", ""]
        shown.append(line)
        last = line if line.strip() else last
    lines[:] = shown


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", equations_as_literal_blocks, priority=900)
