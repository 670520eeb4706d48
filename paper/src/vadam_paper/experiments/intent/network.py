"""A classifier on top of a pre-trained MiniLM, its inputs, and the LoRA adapter by ``peft``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vadam_paper.data import DataNotAvailable, Queries, intents
from vadam_paper.experiments.intent.config import Config
from vadam_paper.experiments.intent.embed import pretrained
from vadam_paper.experiments.intent.task import SYNTHETIC
from vadam_paper.experiments.randomness import generator

PER_CLASS = {"train": 10, "val": 4, "test": 10}
"""Queries of each intent; the first ones of each part."""
OUT_OF_SCOPE = 500
WORDS = 40
"""Vocabulary of drawn queries."""


class Tokens(NamedTuple):
    """Queries as token numbers of one length, with their intents (none out of scope)."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    def inputs(self) -> dict[str, Tensor]:
        return {"input_ids": self.input_ids, "attention_mask": self.attention_mask}

    def rows(self) -> list[dict[str, Tensor]]:
        """Return the queries as the Trainer wants them, one dictionary each."""
        return [
            {"input_ids": ids, "attention_mask": mask, "labels": label} for ids, mask, label in zip(*self, strict=True)
        ]


class Classifier(nn.Module):
    """Mean over the tokens' states, scaled to a mean square of 1, then a linear layer: the same head as for the last layer alone."""

    def __init__(self, encoder: nn.Module, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(int(encoder.config.hidden_size), classes)  # type: ignore[arg-type, union-attr]

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> Any:
        from transformers.modeling_outputs import SequenceClassifierOutput

        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1)
        logits = self.head(mean / mean.square().mean(1, keepdim=True).sqrt())
        loss: Any = None if labels is None else cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def network(config: Config, way: str, classes: int, seed: int) -> nn.Module:
    """Return the network before fine-tuning; only the weights of the way require gradients."""
    torch.manual_seed(generator(config.seed, seed, "start").initial_seed())
    encoder = _tiny() if config.synthetic else pretrained()[1]
    encoder.pooler = None  # the mean over tokens stands in its place
    model = Classifier(encoder, classes)
    return _lora(model) if way == "lora" else model


def _lora(model: nn.Module) -> nn.Module:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise DataNotAvailable("LoRA needs peft: pip install peft") from error
    adapter = LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"], modules_to_save=["head"])
    return get_peft_model(model, adapter)


def _tiny() -> nn.Module:
    from transformers import BertConfig, BertModel

    sizes: Any = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertModel(BertConfig(vocab_size=WORDS, max_position_embeddings=16, **sizes))


def tokens(config: Config, data: Path | None) -> dict[str, Tokens]:
    """Return training, validation and test queries, and queries out of scope."""
    if config.synthetic:
        return _drawn_tokens(config)
    parts, tokenizer = intents(data), pretrained()[0]
    found = {name: _tokenized(tokenizer, _first(parts[name], each)) for name, each in PER_CLASS.items()}
    outside = parts["oos_test"]
    return {**found, "oos_test": _tokenized(tokenizer, outside._replace(texts=outside.texts[:OUT_OF_SCOPE]))}


def _first(part: Queries, each: int) -> Queries:
    seen: dict[int, int] = {}
    rows = []
    for row, label in enumerate(part.labels):
        seen[label] = seen.get(label, 0) + 1
        if seen[label] <= each:
            rows.append(row)
    return Queries(tuple(part.texts[row] for row in rows), tuple(part.labels[row] for row in rows))


def _tokenized(tokenizer: Any, part: Queries) -> Tokens:
    """Return the tokens, short queries first, so that prediction pads little."""
    order = sorted(range(len(part.texts)), key=lambda row: len(part.texts[row]))
    made = tokenizer([part.texts[row] for row in order], padding=True, return_tensors="pt")
    labels: Sequence[int] = part.labels or (0,) * len(order)
    return Tokens(made["input_ids"], made["attention_mask"], torch.tensor([labels[row] for row in order]))


def _drawn_tokens(config: Config) -> dict[str, Tokens]:
    """Draw queries for tests of the program: each intent has its own words."""
    classes, n, _ = SYNTHETIC
    draw = generator(config.seed, "tokens")
    y = torch.arange(classes).repeat(n)

    def drawn(labels: Tensor) -> Tokens:
        words = 1 + labels[:, None] + classes * torch.randint(3, (len(labels), 5), generator=draw)
        return Tokens(words, torch.ones_like(words), labels)

    return {**{name: drawn(y) for name in PER_CLASS}, "oos_test": drawn(torch.randint(classes, (20,), generator=draw))}
