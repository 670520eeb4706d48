"""Run one cell for each method, minibatch size and number of samples; the seeds are one stack."""

from typing import Any

import torch

from vadam.ensemble import MLP, Method
from vadam_paper import data
from vadam_paper.experiments.australian.config import Config
from vadam_paper.experiments.australian.curve import Curve
from vadam_paper.experiments.australian.stack import Stack
from vadam_paper.experiments.context import CellContext

METHODS = {"authors": ("bbvi", "vadam", "vogn"), "text": ("vogn",)}
"""Methods per protocol. BBVI and Vadam have the same settings in the text and in the authors' program."""


def cells(config: Config) -> dict[str, float]:
    """Return the cells with their costs: samples times minibatch size, plus a constant per step."""
    return {
        f"{name}-M{M}-S{S}": 1 + S * M / 200
        for M in config.batch_sizes
        for S in config.samples
        for name in METHODS[config.protocol]
    }


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    name, M, S = key.split("-")
    batch_size = int(M.removeprefix("M"))
    table = data.load("australian", root=context.data)
    (split,) = data.splits("australian")
    stack = Stack(
        torch.as_tensor(table.X, dtype=torch.float32),
        torch.as_tensor(table.y, dtype=torch.float32),
        split,
        MLP(table.X.shape[1], config.hidden, 1),
        method(config, name, int(S.removeprefix("S"))),
        batch_size,
        config,
    )
    steps = config.iterations or 16 * batch_size * -(-len(split.train) // batch_size)
    curve = Curve(config.evaluate_every)
    first = resume(stack, curve, context)
    for step in stack.train(first, steps):
        if step % config.evaluate_every == 0:
            curve.add(*stack.test_log_losses(config.evaluation_samples, step))
            context.report(step / steps)
            context.checkpoint(stack.trainer.state_dict() | curve.tensors(), {"step": step})
    return curve.summary() | {"nelbo": stack.nelbo_per_datum(), "steps": steps}


def resume(stack: Stack, curve: Curve, context: CellContext) -> int:
    restored = context.restore()
    if restored is None:
        return 0
    tensors, meta = restored
    stack.trainer.load_state_dict(tensors)
    curve.load(tensors)
    return int(meta["step"])


def method(config: Config, name: str, samples: int) -> Method:
    match name:
        case "bbvi":
            return Method("bbvi", lr=config.lr, betas=config.betas, samples=samples, init_precision="prior")
        case "vadam":
            return Method("vadam", lr=config.lr, betas=config.betas, samples=samples, init_precision="prior")
        case "vogn":
            return Method("vogn", lr=config.lr, beta=config.vogn_beta, samples=samples, init_precision="prior")
    raise ValueError(f"unknown method {name!r}: choose 'bbvi', 'vadam' or 'vogn'")
