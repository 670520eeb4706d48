"""The example of the docs, in seconds: it trains by the real Trainer, predicts, and draws."""

import html
import importlib
import json
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch

import vadam

ROOT = Path(__file__).parents[2]
pytest.importorskip("transformers", reason='transformers is not installed: pip install "vadam[hf]"')


@pytest.fixture(scope="module")
def example() -> ModuleType:
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module("gpt_uncertainty")
    finally:
        sys.path.remove(str(ROOT / "examples"))


def test_it_runs(example: ModuleType, tmp_path: Path) -> None:
    book = b"".join(
        b"Well, Prince, so Genoa and Lucca are now just family estates of the Buonapartes.\n\n" for _ in range(100)
    )
    (tmp_path / "book.txt").write_bytes(book)
    small = "--steps 3 --batch 2 --length 32 --width 16 --layers 1 --samples 4"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people's deprecations
        example.main([*small.split(), "--text", str(tmp_path / "book.txt"), "--out", str(tmp_path)])
    passages = json.loads((tmp_path / "uncertainty.json").read_text())
    assert len(passages) == 4
    for passage in passages:
        assert len(passage["mutual_information"]) == len(passage["text"]) - 1
        assert all(0 <= i <= h for i, h in zip(passage["mutual_information"], passage["entropy"], strict=True))
    shown = (tmp_path / "uncertainty.html").read_text()
    for passage in passages:
        assert passage["text"][1:] in _text_of(shown)
    saved = vadam.load(tmp_path / "posterior.safetensors")
    assert set("Prince") <= set(saved.config["alphabet"])
    assert "gpt.lm_head.weight" not in saved.posterior.mean  # tied to the embedding


def _text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_long_texts_are_read_in_overlapping_windows(example: ModuleType) -> None:
    """Each character's value is that of a window that ends after it and has at least half a window before it."""
    alphabet = example.Alphabet(" abc")
    torch.manual_seed(0)
    model = example.Logits(example.network(alphabet, length=8, width=8, layers=1)).eval()
    tokens = torch.randint(4, (8 + 3 * 4,))
    mean = {name: p.detach() for name, p in model.named_parameters()}
    post = vadam.MeanFieldGaussian(mean, {name: torch.full_like(p, 1e12) for name, p in mean.items()})
    found = example.uncertainty(model, post, tokens, 8, samples=2, seed=0)["surprise"]
    assert len(found) == len(tokens) - 1
    for end in range(1, len(tokens)):
        start = 0 if end < 8 else (end // 4 - 1) * 4
        with torch.no_grad():
            log_p = model(tokens[None, start:end])[0, -1].log_softmax(-1)
        assert found[end - 1] == pytest.approx(-float(log_p[tokens[end]]), abs=1e-4)


def test_characters_that_the_book_has_not_are_read_as_blanks(example: ModuleType) -> None:
    assert example.Alphabet(" ab").encode("a{b").tolist() == [1, 0, 2]
