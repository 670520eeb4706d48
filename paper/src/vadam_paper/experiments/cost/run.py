"""Run one cell in which all methods take turns, so that a busy moment of the machine affects all of them.

It uses one thread and measures processor time.
"""

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
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
    steps = {name: training_step(config, name) for name in METHODS if config.compiled or not name.endswith(COMPILED)}
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
    """Return a step of training on one minibatch.

    A method's suffix says how it runs: ``-eager`` in torch's operators one by one, ``-whole`` with network, loss and the rule in whole
    compiled graphs, ``-compiled`` with network, loss and the library's backend through torch.compile. Without one, a method of the family
    runs on its default backend, and the others eagerly.
    """
    import torch
    from torch import nn

    torch.manual_seed(config.seed)
    layers = [layer for i, o in pairwise(config.sizes) for layer in (nn.Linear(i, o), nn.ReLU())][:-1]
    x, y = torch.randn(config.batch_size, config.sizes[0]), torch.randint(config.sizes[-1], (config.batch_size,))
    how = method.partition("-")[2]
    step: Callable[[], None] = METHODS[method](nn.Sequential(*layers), x, y, how)
    return step


def _maximum_likelihood(model: Any, x: Any, y: Any, how: str) -> Callable[[], None]:
    import torch
    import torch.nn.functional as F

    return _plain_step(torch.optim.Adam(model.parameters(), fused=True), lambda: F.cross_entropy(model(x), y), how)


def _stochastic_layers(model: Any, x: Any, y: Any, how: str) -> Callable[[], None]:
    """Return a step of Bayes by backprop: layers draw their own weights, and Adam trains means and deviations."""
    import torch
    import torch.nn.functional as F

    from vadam_paper.experiments.cost.stochastic_layers import StochasticLinear, stochastic

    model = stochastic(model)
    drawn = [layer for layer in model if isinstance(layer, StochasticLinear)]

    def loss() -> Any:
        kl = torch.stack([layer.kl(PRIOR_PRECISION) for layer in drawn]).sum()
        return F.cross_entropy(model(x), y) + kl / NUM_DATA

    return _plain_step(torch.optim.Adam(model.parameters(), fused=True), loss, how)


def _plain_step(optimizer: Any, loss: Callable[[], Any], how: str) -> Callable[[], None]:
    """Return a step by an optimizer of torch; compiled graphs draw by torch's generator, because inductor's own takes half of the step."""
    import torch

    evaluate = torch.compile(loss, options={"fallback_random": True}) if how == "whole" else loss

    def step() -> None:
        optimizer.zero_grad()
        evaluate().backward()
        optimizer.step()

    return step


def _family(name: str, model: Any, x: Any, y: Any, how: str) -> Callable[[], None]:
    import torch
    import torch.nn.functional as F

    from vadam import optim

    optimizer = getattr(optim, name)(
        model.parameters(),
        num_data=NUM_DATA,
        prior_precision=PRIOR_PRECISION,
        init_precision=float(NUM_DATA),
        backend={"eager": "plain", "compiled": "compiled", "": "auto"}[how],
    )
    if name == "VOGN":
        optimizer.attach(model)

    def loss() -> Any:
        return F.cross_entropy(model(x), y)

    evaluate = torch.compile(loss) if how == "compiled" else loss

    def step() -> None:
        optimizer.zero_grad()
        with optimizer.sampled_params():
            evaluate().backward()
        optimizer.step()

    return step


def _whole(name: str, rates: dict[str, float], model: Any, x: Any, y: Any, how: str) -> Callable[[], None]:
    """Return a step of the family by the rule's equations alone, in whole compiled graphs."""
    import torch.nn.functional as F

    from vadam_paper.experiments.cost.whole_step import whole_step

    rule = import_module(f"vadam.rules.{name}")
    scale = {"num_data": float(NUM_DATA), "prior_precision": PRIOR_PRECISION}
    return whole_step(rule, rates, model, lambda: F.cross_entropy(model(x), y), **scale)


COMPILED = ("-whole", "-compiled")
"""Suffixes of methods that need torch.compile."""
METHODS: dict[str, Callable[..., Callable[[], None]]] = {
    "adam": _maximum_likelihood,
    "vadam": partial(_family, "Vadam"),
    "vprop": partial(_family, "Vprop"),
    "vogn": partial(_family, "VOGN"),
    "bbvi": partial(_family, "BBVI"),
    "layers": _stochastic_layers,
    "vadam-eager": partial(_family, "Vadam"),
    "vprop-eager": partial(_family, "Vprop"),
    "vadam-compiled": partial(_family, "Vadam"),
    "vprop-compiled": partial(_family, "Vprop"),
    "vadam-whole": partial(_whole, "vadam", {"alpha": 1e-3, "gamma1": 0.9, "gamma2": 0.999}),
    "vprop-whole": partial(_whole, "vprop", {"alpha": 1e-3, "beta": 0.001}),
    "layers-whole": _stochastic_layers,
}
