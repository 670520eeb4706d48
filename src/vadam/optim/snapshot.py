"""What an optimizer has learned, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vadam.backends.shards import whole
from vadam.gaussian import MeanFieldGaussian
from vadam.optim.distributed import unwrapped

if TYPE_CHECKING:
    from vadam.optim.base import VariationalOptimizer


def names(opt: VariationalOptimizer, model: nn.Module | None = None) -> dict[Tensor, str]:
    """Return the name of each parameter: the model's where one is known, otherwise its position."""
    prefixes = [""] if len(opt.param_groups) == 1 else [f"{k}." for k in range(len(opt.param_groups))]
    known: dict[Tensor, str] = {}
    for prefix, group in zip(prefixes, opt.param_groups, strict=True):
        known |= {p: f"{prefix}{i}" for i, p in enumerate(group["params"])}
        known |= dict(zip(group["params"], group.get("param_names", ()), strict=False))
    if opt._attachment is not None:
        known |= opt._attachment.names()
    if model is not None:
        known |= {p: name for name, p in unwrapped(model).named_parameters()}
    return known


def mean_of(opt: VariationalOptimizer, p: Tensor) -> Tensor:
    """Return a copy of a parameter's mean, whole on every rank, also while the parameter holds a sample."""
    held = opt._weights.mean_of(p)
    return whole(p.detach() if held is None else held).to(p.dtype).clone()


@torch.no_grad()
def mean_field(opt: VariationalOptimizer, model: nn.Module | None = None) -> MeanFieldGaussian:
    """Return q as it is now, whole on every rank; weights that are not sampled are points."""
    opt._settle()
    name = names(opt, model)
    mean, precision, prior, point = {}, {}, {}, {}
    for group, p in opt._grouped():
        if group["deterministic"] or not p.requires_grad:
            point[name[p]] = mean_of(opt, p)
        else:
            mean[name[p]], precision[name[p]] = mean_of(opt, p), whole(opt._precision(p)).clone()
            if "prior_precision" in group:
                prior[name[p]] = group["prior_precision"]
    return MeanFieldGaussian(mean, precision, point=point, prior_precision=prior or None)
