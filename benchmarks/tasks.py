"""Eight small tasks on which the optimizers' defaults are chosen: data, network and loss of each, with validation data apart."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.networks import ResidualNetwork, Transformer
from vadam.likelihoods import Categorical, Gaussian, Likelihood
from vadam_paper import data
from vadam_paper.experiments.char_lm.network import LanguageModel
from vadam_paper.experiments.char_lm.text import war_and_peace


@dataclass(frozen=True)
class Task:
    """Training and validation data, a network, a likelihood; ``N`` is what a user would give as ``num_data``."""

    network: Callable[[], nn.Module]
    likelihood: Likelihood
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    batch: int
    steps: int

    @property
    def N(self) -> int:
        return self.train[1].numel()

    def batches(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield minibatches of shuffled epochs, ``steps`` of them."""
        rows_of_all, done = len(self.train[0]), 0
        while True:
            order = torch.randperm(rows_of_all, generator=generator)
            for rows in order.split(self.batch)[: rows_of_all // self.batch]:
                yield self.train[0][rows], self.train[1][rows]
                done += 1
                if done == self.steps:
                    return


def readme() -> Task:
    """Return the README's sine: 120 points, 1-50-1, noise of standard deviation 0.1."""
    g = torch.Generator().manual_seed(0)
    x = torch.linspace(-3, 3, 120).unsqueeze(1)
    y = x.sin() + 0.1 * torch.randn(120, 1, generator=g)
    v = 6 * torch.rand(200, 1, generator=g) - 3
    network = lambda: nn.Sequential(nn.Linear(1, 50), nn.ReLU(), nn.Linear(50, 1))  # noqa: E731
    return Task(
        network,
        Gaussian(noise_precision=100.0),
        (x, y),
        (v, v.sin() + 0.1 * torch.randn(200, 1, generator=g)),
        10,
        3000,
    )


def uci(name: str, noise_precision: float, steps: int = 3000) -> Task:
    """Return a UCI table: one hidden layer of 50 units; a tenth of the first split's training rows is for validation."""
    table = data.load(name)
    rows = data.splits(name)[0].train
    X, y = torch.as_tensor(table.X[rows]).float(), torch.as_tensor(table.y[rows]).float().unsqueeze(1)
    tenth = len(rows) // 10
    Xt, yt = X[tenth:], y[tenth:]
    scale = Xt.std(0).clamp(min=1e-6)
    x, v = ((part - Xt.mean(0)) / scale for part in (Xt, X[:tenth]))
    t, u = ((part - yt.mean()) / yt.std() for part in (yt, y[:tenth]))
    network = lambda: nn.Sequential(nn.Linear(x.shape[1], 50), nn.ReLU(), nn.Linear(50, 1))  # noqa: E731
    return Task(network, Gaussian(noise_precision=noise_precision), (x, t), (v, u), 32, steps)


def lenet() -> nn.Module:
    """Return LeNet-5 with ReLU and max pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def images(name: str) -> Task:
    """Return LeNet-5 on 5,000 images of 28x28 pixels."""
    found = data.image_set(name)[0]
    X, y = torch.as_tensor(found.X[:6000]), torch.as_tensor(found.y[:6000])
    return Task(lenet, Categorical(), (X[:5000], y[:5000]), (X[5000:], y[5000:]), 50, 2000)


def usps() -> Task:
    """Return a CNN of 16 and 32 channels on the digits of USPS, 16x16; the last 1,291 training images are for validation."""
    table = data.load("usps")
    X, y = torch.as_tensor(table.X[:7291]).float().view(-1, 1, 16, 16), torch.as_tensor(table.y[:7291])
    order = torch.randperm(7291, generator=torch.Generator().manual_seed(0))
    X, y = X[order], y[order]

    def network() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip

    return Task(network, Categorical(), (X[:6000], y[:6000]), (X[6000:], y[6000:]), 64, 1500)


def residual() -> Task:
    """Return a residual network with GroupNorm on scikit-learn's 8x8 digits; the last fifth is for validation."""
    table = data.load("digits")
    X, y = torch.as_tensor(table.X).float().view(-1, 1, 8, 8) / 16, torch.as_tensor(table.y)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    X, y = X[order], y[order]
    return Task(
        lambda: ResidualNetwork("group", 1, (16, 32), 10),
        Categorical(),
        (X[:1437], y[:1437]),
        (X[1437:], y[1437:]),
        32,
        1200,
    )


def intents(scored: str = "val") -> Task:
    """Return a transformer of two blocks that tells 30 intents of CLINC150's questions apart, from their words.

    ``scored`` names the part of the set that is scored.
    """
    sets = json.loads((Path(os.environ.get("VADAM_DATA", "")) / "text" / "clinc150_full.json").read_text())
    classes = sorted({label for _, label in sets["train"]})[::5]
    counts: dict[str, int] = {}
    for text, label in sets["train"]:
        if label in classes:
            for word in text.split():
                counts[word] = counts.get(word, 0) + 1
    words = {word: n + 2 for n, word in enumerate(sorted(counts, key=lambda w: (-counts[w], w))[:998])}

    def tensors(rows: list[list[str]]) -> tuple[Tensor, Tensor]:
        rows = [row for row in rows if row[1] in classes]
        index = torch.zeros(len(rows), 16, dtype=torch.long)
        for i, (text, _) in enumerate(rows):
            numbers = [words.get(word, 1) for word in text.split()[:16]]
            index[i, : len(numbers)] = torch.tensor(numbers)
        return index, torch.tensor([classes.index(label) for _, label in rows])

    def network() -> nn.Module:
        model = Transformer(64)
        model.head = nn.Linear(64, len(classes))
        return model

    return Task(network, Categorical(), tensors(sets["train"]), tensors(sets[scored]), 32, 1500)


class NextCharacter(nn.Module):
    """A language model that starts each chunk anew; logits [B·T, C]."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.model = LanguageModel(characters, 32, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)[0].flatten(0, 1)


def language_model() -> Task:
    """Return an LSTM of 64 units on 100,000 characters of War and Peace, in chunks of 25; N is the number of characters."""
    corpus = war_and_peace(125_000, None)
    train, validation = (
        (part[: len(part) // 25 * 25 - 25].view(-1, 25), part[1 : len(part) // 25 * 25 - 24].view(-1, 25))
        for part in (corpus.train, corpus.validation)
    )
    return Task(lambda: NextCharacter(len(corpus.vocabulary)), Categorical(), train, validation, 40, 2000)


TASKS: dict[str, Callable[[], Task]] = {
    "sine": readme,
    "boston": lambda: uci("boston", 10.0),
    "kin8nm": lambda: uci("kin8nm", 10.0),
    "fashion": lambda: images("fashion-mnist"),
    "usps": usps,
    "residual": residual,
    "transformer": intents,
    "lstm": language_model,
}
