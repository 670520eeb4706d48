"""The same curvature in other words: squares of per-example gradients of random networks, by hooks and by a loop over examples."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torture.case import Case, Failed, Outcome
from vadam.curvature import PerExampleSquares

Network = tuple[nn.Module, Callable[[int], Tensor]]
CHANNELS = 4


class Twice(nn.Module):
    """Uses a layer twice, its output beside its input."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer(torch.tanh(self.layer(x)))  # type: ignore[no-any-return]


class Scaled(nn.Module):
    """Uses its own parameters, one of them in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(CHANNELS) + 0.5)
        self.shift = nn.Parameter(torch.randn(()))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = (x * self.scale).tanh() + self.shift
        return x


class Recurrent(nn.Module):
    """Returns the outputs of all steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Attends to itself, with a mask of the steps that come later."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(CHANNELS, 2, batch_first=True, bias=bool(torch.rand(()) < 0.5))

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.layer(x, x, x, attn_mask=mask, need_weights=False)[0]  # type: ignore[no-any-return]


class Tied(nn.Module):
    """Multiplies by one weight and by its transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CHANNELS, CHANNELS))
        self.bias = nn.Parameter(torch.randn(CHANNELS))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(x, self.weight).tanh(), self.weight.T, self.bias)


def row_blocks(random: random.Random) -> list[Callable[[], nn.Module]]:
    """Return layers that keep [B, …, C]."""
    bias = random.random() < 0.5
    return [
        lambda: nn.Linear(CHANNELS, CHANNELS, bias=bias),
        lambda: nn.Sequential(nn.Linear(CHANNELS, CHANNELS), random.choice((nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh))()),
        lambda: nn.LayerNorm(CHANNELS, elementwise_affine=True, bias=bias),
        lambda: nn.RMSNorm(CHANNELS),
        lambda: Twice(nn.Linear(CHANNELS, CHANNELS)),
        Scaled,
        Tied,
    ]


def sequence_blocks(random: random.Random) -> list[Callable[[], nn.Module]]:
    layers, two_ways = random.choice((1, 2)), random.random() < 0.3
    size = {"hidden_size": CHANNELS // 2 if two_ways else CHANNELS, "num_layers": layers, "bidirectional": two_ways}
    kinds = (nn.LSTM, nn.GRU, nn.RNN)
    return [
        *row_blocks(random),
        lambda: Recurrent(random.choice(kinds)(CHANNELS, batch_first=True, **size)),
        Attention,
        lambda: nn.TransformerEncoderLayer(CHANNELS, 2, 6, dropout=0.0, batch_first=True),
    ]


def image_blocks(random: random.Random) -> list[Callable[[], nn.Module]]:
    """Return layers that keep [B, C, 4, 4]."""
    groups, mode = random.choice((1, 2, CHANNELS)), random.choice(("zeros", "reflect", "circular"))
    dilation, bias = random.choice((1, 2)), random.random() < 0.5
    same: dict[str, Any] = {"padding": dilation, "dilation": dilation, "groups": groups, "bias": bias}
    return [
        lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding_mode=mode, **same),
        lambda: nn.Conv2d(CHANNELS, CHANNELS, 1),
        lambda: nn.ConvTranspose2d(CHANNELS, CHANNELS, 3, **same),
        lambda: nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1), nn.Upsample(scale_factor=2)),
        lambda: nn.GroupNorm(2, CHANNELS),
        lambda: nn.InstanceNorm2d(CHANNELS, affine=True),
        lambda: nn.PReLU(CHANNELS),
        lambda: Twice(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)),
    ]


def network(random: random.Random) -> Network:
    """Return a random network with three outputs, and a function that draws its inputs."""
    kind = random.choice(("rows", "words", "sequence", "image", "signal"))
    if kind == "image":
        body = [random.choice(image_blocks(random))() for _ in range(random.randrange(1, 4))]
        return nn.Sequential(*body, nn.Flatten(), nn.Linear(16 * CHANNELS, 3)), lambda n: torch.randn(n, CHANNELS, 4, 4)
    if kind == "signal":
        convolution = nn.Conv1d(CHANNELS, 6, 3, stride=random.choice((1, 2)), groups=random.choice((1, 2)))
        return nn.Sequential(
            convolution, nn.ReLU(), nn.LazyLinear(2), nn.Flatten(), nn.LazyLinear(3)
        ), lambda n: torch.randn(n, CHANNELS, 9)
    blocks = row_blocks(random) if kind == "rows" else sequence_blocks(random)
    body = [random.choice(blocks)() for _ in range(random.randrange(1, 4))]
    if kind == "rows":
        return nn.Sequential(*body, nn.Linear(CHANNELS, 3)), lambda n: torch.randn(n, CHANNELS)
    steps = random.choice((1, 5))
    last = nn.Flatten(), nn.Linear(steps * CHANNELS, 3)
    if kind == "sequence":
        return nn.Sequential(*body, *last), lambda n: torch.randn(n, steps, CHANNELS)
    words = nn.Embedding(7, CHANNELS, padding_idx=random.choice((None, 0)))
    return nn.Sequential(words, *body, *last), lambda n: torch.randint(7, (n, steps))


def losses(random: random.Random, n: int) -> Callable[[Tensor, slice], Tensor]:
    """Return a loss of some rows that is the mean over examples."""
    labels, targets, weights = torch.randint(3, (n,)), torch.randn(n, 3), torch.rand(n)
    return random.choice(
        (
            lambda out, rows: F.cross_entropy(out, labels[rows]),
            lambda out, rows: F.mse_loss(out, targets[rows]),
            lambda out, rows: (out - targets[rows]).square().sum(1).mean(),
            lambda out, rows: (weights[rows] * F.cross_entropy(out, labels[rows], reduction="none")).mean(),
            lambda out, rows: F.smooth_l1_loss(out, targets[rows]),
        )
    )


def by_hand(model: nn.Module, loss: Callable[[Tensor, slice], Tensor], x: Tensor) -> dict[str, Tensor]:
    """Take the gradient of one example after the other, and square it."""
    found = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for k in range(len(x)):
        rows = slice(k, k + 1)
        grads = torch.autograd.grad(loss(model(x[rows]), rows), [*model.parameters()], allow_unused=True)
        for name, grad in zip(found, grads, strict=True):
            found[name] += 0 if grad is None else grad**2 / len(x)
    return found


def by_hooks(model: nn.Module, loss: Callable[[Tensor, slice], Tensor], x: Tensor, pieces: int) -> dict[str, Tensor]:
    """Let the hooks collect them in one backward pass, or in several of micro-batches."""
    engine = PerExampleSquares(model)
    bounds = [round(k * len(x) / pieces) for k in range(pieces + 1)]
    for first, last in itertools.pairwise(bounds):
        rows = slice(first, last)
        (loss(model(x[rows]), rows) * (last - first) / len(x)).backward()
    squares = engine.take()
    engine.remove()
    model.zero_grad()
    return {name: squares.get(p, torch.zeros_like(p)) for name, p in model.named_parameters()}


def curvatures(case: Case) -> Outcome:
    """Compare the squares of a random network, in one pass and in micro-batches, with those of a loop."""
    torch.manual_seed(case.random.randrange(2**31))
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return check(case.random)
    finally:
        torch.set_default_dtype(default)


def check(random: random.Random) -> Outcome:
    found, n = Outcome(), random.choice((2, 4, 6))
    model, draw = network(random)
    x, loss = draw(n), losses(random, n)
    model(x)  # some layers wait for their first input
    expected = by_hand(model, loss, x)
    for name, pieces in {"one pass": 1, "two micro-batches": 2, "an example at a time": n}.items():
        result = by_hooks(model, loss, x, pieces)
        for parameter, value in expected.items():
            off = float((result[parameter] - value).abs().max())
            if not off <= 1e-9 * float(1 + value.abs().max()):
                raise Failed(f"{name} of {n} examples: the squares of {parameter} are off by {off:.3g} in {model}")
        found.add("answers")
        found.add(name)
    return found
