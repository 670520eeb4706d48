from typing import Any

import torch

from specs import BY_NAME, Problem
from torture.trained.config import Config
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.optimizer_state import load_tensors, tensors_of


def cells(config: Config) -> dict[str, float]:
    return {f"network-{k}": 1.0 for k in range(config.networks)}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    spec, problem = BY_NAME["Vadam"], Problem(torch.float32, seed=int(key.split("-")[1]))
    opt = spec.make(problem.model.parameters(), generator=torch.Generator().manual_seed(config.seed))
    first, restored = 0, context.restore()
    if restored:
        tensors, meta = restored
        load_tensors(opt, "opt", tensors)
        opt.generator.set_state(tensors["noise"])
        problem.model.load_state_dict({name: tensors[f"model/{name}"] for name in problem.model.state_dict()})
        first = meta["step"]
    for step in range(first, config.steps):
        problem.step(opt, spec, rows=slice(step % 30, step % 30 + 10))
        weights = {f"model/{name}": value for name, value in problem.model.state_dict().items()}
        noise = {"noise": opt.generator.get_state()}
        context.checkpoint({**weights, **tensors_of(opt, "opt"), **noise}, {"step": step + 1})
    return {"weights": torch.cat([p.detach().flatten() for p in problem.model.parameters()])}
