"""Every Python block of the README and the docs runs and prints what the page says, and so does every example in a docstring."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from page_parts import digest, parts

import vadam
from vadam.gaussian.summary import UninformedPosterior
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
    """The blocks of a page run one after the other, without a warning; docs/page_parts.py says what their first lines mean."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if "from vadam_paper" in page.read_text():
        pytest.importorskip("vadam_paper", reason="vadam-paper is not installed: pip install ./paper")
    warnings.simplefilter("error", MissingLikelihood)
    if "UninformedPosterior" not in page.read_text():
        warnings.simplefilter("error", UninformedPosterior)
    space: dict = {}
    printed = StringIO()
    for part in parts(page):
        if part.kind == "code":
            space = {"__name__": "snippet"} if part.fresh else space
            with redirect_stdout(StringIO()) as printed:
                exec(compile(part.text, str(page), "exec"), space)
        elif part.kind == "prose" and (shown := re.match(r"\s*```text\n(.*?)```", part.text, re.DOTALL)):
            assert_same_output(printed.getvalue(), shown[1])
            printed = StringIO()
        elif part.kind == "file":
            Path(part.name).write_text(part.text)
        elif part.kind == "shell":
            ended = subprocess.run(part.text, shell=True, capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            printed = StringIO(ended.stdout)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def assert_same_output(printed: str, shown: str) -> None:
    """Compare words exactly, and numbers to 10 % or three units of the last digit: processors round differently."""
    number = r"-?\d+(?:\.\d+)?"
    assert re.sub(number, "0", printed).split() == re.sub(number, "0", shown).split(), printed
    for ours, theirs in zip(re.findall(number, printed), re.findall(number, shown), strict=True):
        last_digit = 10.0 ** -len(theirs.partition(".")[2])
        assert float(ours) == pytest.approx(float(theirs), rel=0.1, abs=3 * last_digit), printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_are_those_of_the_code_above_them(page: Path) -> None:
    code: list[str] = []
    for part in parts(page):
        if part.kind == "code":
            code = [part.text] if part.fresh else [*code, part.text]
        elif part.kind == "figure" and code:
            drawn = (ROOT / "docs" / "_static" / f"{part.name}.svg.html").read_text()
            assert f'data-code="{digest(code)}"' in drawn, f"run: python docs/figures.py {page.stem}"


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
