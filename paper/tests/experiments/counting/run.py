"""An experiment for tests: cell k adds up random numbers of its own, with a checkpoint after each."""

import os
from typing import Any

import torch

from experiments.counting.config import Config
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.randomness import generator


def cells(config: Config) -> dict[str, float]:
    return {f"cell-{k}": 1.0 + k for k in range(config.numbers)}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    if config.fails_at is not None and key == f"cell-{config.fails_at}":
        raise KeyboardInterrupt
    if config.dies_at is not None and key == f"cell-{config.dies_at}":
        os._exit(9)
    restored = context.restore()
    total, first = (restored[0]["total"], restored[1]["step"]) if restored else (torch.zeros(3), 0)
    for step in range(first, config.steps):
        total = total + torch.randn(3, generator=generator(config.seed, key, step))
        context.checkpoint({"total": total}, {"step": step + 1})
        context.report((step + 1) / config.steps)
    return {"total": total, "first": first}
