"""Split the novel into three parts, each encoded as numbers and read as parallel streams."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vadam_paper import data


class Corpus(NamedTuple):
    """The text split by position: the first 80 % for training, then 10 % for validation, then 10 % for testing."""

    train: Tensor
    validation: Tensor
    test: Tensor
    vocabulary: str


def corpus(text: str) -> Corpus:
    vocabulary = "".join(sorted(set(text)))
    number = {character: n for n, character in enumerate(vocabulary)}
    numbers = torch.tensor([number[character] for character in text])
    tenth = len(text) // 10
    train, validation, test = numbers.split([len(text) - 2 * tenth, tenth, tenth])
    return Corpus(train, validation, test, vocabulary)


def war_and_peace(characters: int | None, root: Path | None) -> Corpus:
    return corpus(data.load("war-and-peace", root).content.decode()[:characters])


class Streams(NamedTuple):
    """Consecutive parts ``x`` [B, L] of the text; ``y`` holds the next character of each."""

    x: Tensor
    y: Tensor

    def chunks(self, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield chunks [B, steps] in order: row k of a chunk continues row k of the chunk before."""
        return zip(self.x.split(steps, 1), self.y.split(steps, 1), strict=True)


def streams(numbers: Tensor, count: int, steps: int) -> Streams:
    """Return ``count`` streams of whole chunks; the remaining characters, at least one, are left out."""
    count = min(count, (len(numbers) - 1) // steps)
    whole = (len(numbers) - 1) // (count * steps) * count * steps
    return Streams(numbers[:whole].view(count, -1), numbers[1 : whole + 1].view(count, -1))
