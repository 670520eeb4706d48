"""Every Python block of the README and the docs runs, and so does every example in a docstring."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import vadam

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


def test_the_readme_shows_what_it_says() -> None:
    """Far from the data the epistemic uncertainty is larger, as the README says."""
    text = (ROOT / "README.md").read_text()
    block = next(b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "far from them" in b)
    space: dict = {}
    exec(block.replace('vadam.save("posterior.safetensors", post)', "pass"), space)
    among, far = space["pred"].epistemic.flatten().tolist()
    assert far > 3 * among
    assert float(space["pred"].mean[0]) == pytest.approx(0.997, abs=0.15)  # sin 1.5
    assert float(space["pred"].aleatoric.flatten()[0]) == pytest.approx(0.1)


def test_the_readmes_diff_trains_a_network() -> None:
    """The call of the README's diff, on the digits of scikit-learn: near Adam, and far from the 10 % of guessing."""
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    X, y = datasets.load_digits(return_X_y=True)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    X, y, N = torch.tensor(X / 16, dtype=torch.float32)[order], torch.tensor(y)[order], 1400
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    call = re.search(r"^\+opt = (.*?)\s+#", (ROOT / "README.md").read_text(), re.MULTILINE)
    opt = eval(call[1], {"vadam": vadam, "model": model, "N": N, "M": 64})
    for _ in range(10):
        for rows in torch.randperm(N).split(64):

            def closure(rows=rows):
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(X[rows]), y[rows])
                loss.backward()
                return loss

            opt.step(closure)
    accuracy = (model(X[N:]).argmax(1) == y[N:]).float().mean()
    assert accuracy > 0.85  # Adam reaches 0.93 in as many epochs


@pytest.mark.parametrize("name", ["bbvi", "ivon", "natural-momentum", "vadagrad", "vadam", "vogn", "von", "vprop"])
def test_the_page_of_an_algorithm_lists_the_state_of_its_rule(name: str) -> None:
    text = (ROOT / "docs" / "algorithms" / f"{name}.md").read_text(encoding="utf-8")
    line = re.search(r"^State\n: (.*)$", text, re.MULTILINE)
    assert line is not None
    listed = re.findall(r"`(\w+)`", re.split("; (?:with momentum|exact)", line[1])[0])
    rule = importlib.import_module(f"vadam.rules.{name.replace('-', '_')}")
    assert listed == [field for field in rule.State._fields if field != "mu"]
