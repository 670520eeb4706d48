"""Given only ``lr`` and ``num_data``, or not even a rate, every optimizer trains a small convolutional network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vadam

CLASSES = 4
OPTIMIZERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Vadam": (vadam.Vadam, {"lr": 1e-3}),
    "Vprop": (vadam.Vprop, {"lr": 1e-3}),
    "BBVI": (vadam.BBVI, {"lr": 1e-3}),
    "VOGN": (vadam.VOGN, {}),
    "VON": (vadam.VON, {}),
    "IVON": (vadam.IVON, {}),
    "FullVON": (vadam.FullVON, {}),
}


def images(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return 8x8 images in which one quarter is bright, and which quarter it is."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (rows,), generator=g)
    x = 0.5 * torch.randn(rows, 1, 8, 8, generator=g)
    for row, label in enumerate(y.tolist()):
        x[row, 0, 4 * (label // 2) :, 4 * (label % 2) :][:4, :4] += 1.0
    return x, y


def tiny_cnn() -> nn.Module:
    """Return a network of 56 weights, for a Hessian of 56 x 56."""
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(8, CLASSES))


def cnn(channels: int, hidden: int) -> nn.Module:
    """Return a network of two convolutions and two dense layers."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(channels, channels, 3, padding=1),
        nn.ReLU(), nn.Flatten(), nn.Linear(16 * channels, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES),
    )  # fmt: skip


def train(opt: Any, model: nn.Module, x: Tensor, y: Tensor, steps: int) -> None:
    order = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(x), (32,), generator=order)

        def closure(rows: Tensor = rows) -> Tensor:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            if opt.has_loop:
                loss.backward()
            return loss

        opt.step(closure)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_convolutional_network_trains_on_lr_and_num_data_alone(name: str) -> None:
    """A predictor that has learned nothing is right in 25 % of the cases; from the prior's start Vadam stays there."""
    kind, rate = OPTIMIZERS[name]
    x, y = images(512, 0)
    torch.manual_seed(0)
    model = tiny_cnn() if name == "FullVON" else cnn(16, 64)
    opt = kind(model.parameters(), num_data=len(x), **rate)
    if name == "VOGN":
        opt.attach(model)
    train(opt, model, x, y, 300)
    unseen, labels = images(256, 1)
    pred = vadam.predict(model, opt.posterior(model), unseen, 16, likelihood=vadam.Categorical())
    assert (pred.label == labels).double().mean() > 0.9
    assert -float(pred.log_prob(labels).mean()) < 0.5


def test_the_papers_start_is_one_word_away() -> None:
    model = cnn(2, 4)
    for kind, _ in OPTIMIZERS.values():
        if kind is not vadam.IVON:
            opt = kind(model.parameters(), num_data=100, prior_precision=3.0, init_precision="prior")
            assert opt.param_groups[0]["init_precision"] == 3.0


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ({}, 1000.0),
        ({"prior_precision": 5000.0}, 5000.0),
        ({"temperature": 0.1}, 10_000.0),
        ({"data_weight": 2.0}, 2000.0),
        ({"start_in_step": True}, 1.0),
    ],
    ids=str,
)
def test_the_default_start_counts_data_as_the_posterior_does(arguments: dict[str, Any], start: float) -> None:
    opt = vadam.Vadam([nn.Parameter(torch.zeros(2))], num_data=100, **arguments)
    assert opt.param_groups[0]["init_precision"] == pytest.approx(start)
