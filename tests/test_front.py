"""The first lines that a user reads are the same everywhere, they run, and they show what the text says."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vadam
from vadam.demo.text import DIFF

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_first_snippet_is_that_of_the_demo(page: Path) -> None:
    found = re.search(r"```diff\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None
    assert found[1] == DIFF


def test_the_first_snippet_fits_on_a_page() -> None:
    """The box of the landing page holds 80 columns at 1400 pixels."""
    assert max(map(len, DIFF.splitlines())) <= 80


def lines(side: str) -> str:
    return "\n".join(line[1:] for line in DIFF.splitlines() if line[:1] in ("", " ", side))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 10),
    )  # fmt: skip


def layers() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))


@pytest.mark.parametrize("network", [layers, convolutions])
def test_the_first_snippet_trains_a_network(network: Any) -> None:
    """The digits of scikit-learn, 15 epochs: near Adam, and far from the 10 % of guessing."""
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    X, y = datasets.load_digits(return_X_y=True)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    X, y, N, M = torch.tensor(X / 16, dtype=torch.float32).view(-1, 8, 8)[order], torch.tensor(y)[order], 1400, 64
    accuracy = {}
    for side, optimizer in (("-", torch.optim.Adam), ("+", vadam.Vadam)):
        torch.manual_seed(0)
        epochs = (torch.randperm(N).split(M) for _ in range(15))
        space: dict[str, Any] = {"torch": torch, "vadam": vadam, "N": N, "M": M, "x_new": X[N:]}
        space |= {"model": network(), "loss_fn": nn.CrossEntropyLoss()}
        space |= {"loader": [(X[rows], y[rows]) for epoch in epochs for rows in epoch]}
        exec(lines(side), space)
        assert type(space["opt"]) is optimizer
        label = space["pred"].label if side == "+" else space["model"](X[N:]).argmax(1)
        accuracy[side] = float((label == y[N:]).double().mean())
    assert accuracy["+"] > 0.85
    assert accuracy["+"] > accuracy["-"] - 0.05


def readme_example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(block for block in blocks if "surer" in block or "right = " in block)


def test_the_start_page_has_the_readmes_example() -> None:
    assert readme_example() in (ROOT / "docs" / "start.md").read_text()


def by_adam(code: str, arguments: str = "lr=0.01") -> str:
    """Return the example with Adam, and its weights as a posterior without spread."""
    code = re.sub(r"opt = vadam\.Vadam\(.*\)\n", f"opt = torch.optim.Adam(model.parameters(), {arguments})\n", code)
    code = re.sub(r"opt\.attach.*\n", "", code)
    point = "{name: p.detach() for name, p in model.named_parameters()}"
    return re.sub(r"opt\.posterior\(model\)", f"vadam.MeanFieldGaussian({{}}, {{}}, point={point})", code)


def test_the_readmes_example_is_honest_about_its_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In five of five seeds: the mean confidence is near the share of right answers, Adam's is far above without weight decay."""
    monkeypatch.chdir(tmp_path)
    for seed in range(5):
        gap = {}
        programs = {"Vadam": readme_example(), "Adam": by_adam(readme_example())}
        programs["decayed"] = by_adam(readme_example(), "lr=0.01, weight_decay=0.05")
        for name, code in programs.items():
            space: dict[str, Any] = {}
            exec(code.replace("manual_seed(0)", f"manual_seed({seed})"), space)
            gap[name] = float(space["sure"] - space["right"])
            if seed == 0 and name != "decayed":
                said = re.findall(r"# (0\.\d+); with torch.optim.Adam (0\.\d+)", code)
                shown = [float(pair[name == "Adam"]) for pair in said]
                assert shown == pytest.approx([float(space["right"]), float(space["sure"])], abs=0.015)
        assert abs(gap["Vadam"]) < 0.08
        assert gap["Adam"] > 0.12
        assert abs(gap["decayed"]) < 0.08
