"""Run one cell in which all methods take turns, so that a busy moment of the machine affects all of them.

It uses one thread and measures processor time.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.cost.config import Config

NUM_DATA, PRIOR_PRECISION = 60_000, 1.0


def cells(config: Config) -> dict[str, float]:
    return {"step": float(config.rounds)}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    steps = {name: training_step(config, name) for name in METHODS}
    for step in steps.values():
        for _ in range(3):
            step()
    milliseconds: dict[str, list[float]] = {name: [] for name in steps}
    for done in range(config.rounds):
        for name, step in steps.items():
            step()  # warm up: the caches still hold data of the previous method
            start = time.process_time()
            step()
            milliseconds[name].append(round(1000 * (time.process_time() - start), 4))
        context.report((done + 1) / config.rounds)
    return {"milliseconds": milliseconds}


def training_step(config: Config, method: str) -> Callable[[], None]:
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(config.seed)
    layers = [layer for i, o in pairwise(config.sizes) for layer in (nn.Linear(i, o), nn.ReLU())][:-1]
    x, y = torch.randn(config.batch_size, config.sizes[0]), torch.randint(config.sizes[-1], (config.batch_size,))
    model, optimizer, extra_loss = METHODS[method](nn.Sequential(*layers), config)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if extra_loss is not None:
            loss = loss + extra_loss()
        loss.backward()
        optimizer.step()

    return step


def _adam(model: Any, config: Config) -> tuple[Any, Any, Any]:
    import torch

    return model, torch.optim.Adam(model.parameters(), fused=True), None


def _layers(model: Any, config: Config) -> tuple[Any, Any, Any]:
    import torch

    from vadam_paper.experiments.cost.stochastic_layers import StochasticLinear, stochastic

    model = stochastic(model)
    drawn = [layer for layer in model if isinstance(layer, StochasticLinear)]
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    return model, optimizer, lambda: torch.stack([layer.kl(PRIOR_PRECISION) for layer in drawn]).sum() / NUM_DATA


def _family(name: str, model: Any, config: Config) -> tuple[Any, Any, Any]:
    from vadam import optim

    kind = getattr(optim, name)
    optimizer = kind(
        model.parameters(),
        num_data=NUM_DATA,
        prior_precision=PRIOR_PRECISION,
        init_precision=float(NUM_DATA),
        backend=config.backend,
    )
    return model, optimizer.attach(model), None


METHODS: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "adam": _adam,
    "vadam": partial(_family, "Vadam"),
    "vprop": partial(_family, "Vprop"),
    "vogn": partial(_family, "VOGN"),
    "bbvi": partial(_family, "BBVI"),
    "layers": _layers,
}
