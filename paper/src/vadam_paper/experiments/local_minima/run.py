"""Run the four starts: their paths, many seeds, and the controls; and a whole grid of starts."""

from typing import Any

import torch
from torch import Tensor

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.local_minima.config import Config
from vadam_paper.experiments.local_minima.descent import Path, gradient_descent, vadam_to_vadagrad
from vadam_paper.experiments.local_minima.landscape import objective, sharpness
from vadam_paper.experiments.randomness import generator

SIGNS = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)


def cells(config: Config) -> dict[str, float]:
    return {"paths": 1.0, "seeds": 1.2, "unperturbed": 0.5, "shifted": 1.2, "grid": 3.0}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    random = generator(config.seed, key)
    starts = config.start * SIGNS
    many = starts[:, None, :].expand(4, config.seeds, 2).clone()
    match key:
        case "paths":
            return paths(config, starts, random, context)
        case "seeds":
            return ends(vadam_to_vadagrad(config, many, random, report=context.report))
        case "unperturbed":
            return ends(vadam_to_vadagrad(config, starts, None, report=context.report))
        case "shifted":
            shift = torch.full((2,), config.shift, dtype=torch.float64)
            return ends(vadam_to_vadagrad(config, many, random, report=context.report, shift=shift))
        case "grid":
            side = torch.linspace(-1, 1, config.grid, dtype=torch.float64)
            grid = torch.cartesian_prod(side, side)
            down = {"variational": vadam_to_vadagrad(config, grid, random, report=context.report)}
            down |= {"gradient_descent": gradient_descent(config, grid)}
            return {name: ends(theta) for name, theta in down.items()} | {"starts": grid}
    raise ValueError(f"unknown cell {key!r}: choose one of {', '.join(cells(config))}")


def paths(config: Config, starts: Tensor, random: torch.Generator, context: CellContext) -> dict[str, Any]:
    every = max(1, config.steps // config.path_points)
    variational, descent = Path(every), Path(every)
    end = vadam_to_vadagrad(config, starts, random, variational, context.report)
    stuck = gradient_descent(config, starts, descent)
    return {
        "variational": ends(end) | {"path": _rounded(variational.points), "stddev": _rounded(variational.stddevs)},
        "gradient_descent": ends(stuck) | {"path": _rounded(descent.points)},
    }


def ends(theta: Tensor) -> dict[str, Any]:
    """Return the end point with its objective and sharpness."""
    return {"theta": _rounded([theta])[0], "objective": objective(theta), "sharpness": sharpness(theta)}


def _rounded(points: list[Tensor]) -> Tensor:
    return (torch.stack(points) * 1e4).round() / 1e4
