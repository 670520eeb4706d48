"""Every Python block of the README and the docs runs, and so does every example in a docstring."""

import doctest
import importlib
import pkgutil
import re
import warnings
from pathlib import Path

import pytest

import vadam
from vadam.prediction import MissingLikelihood

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "skeleton")]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(vadam.__path__, "vadam.")
    if not re.search(r"\.(cli|integrations|estimators|demo|report|ensemble)\b", module.name)
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after the other, each in a namespace of its own.

    ```python continued goes on in that of the block before; ```python no-run marks a block that cannot run.
    """
    monkeypatch.chdir(tmp_path)
    if "from vadam_paper" in page.read_text():
        pytest.importorskip("vadam_paper", reason="vadam-paper is not installed: pip install ./paper")
    warnings.simplefilter("error", MissingLikelihood)
    space: dict = {}
    for continued, block in re.findall(
        r"^```python( continued)?\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        space = space if continued else {"__name__": "snippet"}
        exec(compile(block, str(page), "exec"), space)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    failed, _ = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert failed == 0


@pytest.mark.parametrize("name", ["bbvi", "ivon", "natural-momentum", "vadagrad", "vadam", "vogn", "von", "vprop"])
def test_the_page_of_an_algorithm_lists_the_state_of_its_rule(name: str) -> None:
    text = (ROOT / "docs" / "algorithms" / f"{name}.md").read_text(encoding="utf-8")
    line = re.search(r"^State\n: (.*)$", text, re.MULTILINE)
    assert line is not None
    listed = re.findall(r"`(\w+)`", re.split("; (?:with momentum|exact)", line[1])[0])
    rule = importlib.import_module(f"vadam.rules.{name.replace('-', '_')}")
    assert listed == [field for field in rule.State._fields if field != "mu"]
