"""What an optimizer has learned, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from vadam.gaussian import MeanFieldGaussian
from vadam.optim.distributed import unwrapped, whole

if TYPE_CHECKING:
    from vadam.optim.base import VariationalOptimizer


def names(opt: VariationalOptimizer, model: nn.Module | None = None) -> dict[int, str]:
    """The name of each parameter, by its identity: the model's where one is known, otherwise its position."""
    prefixes = [""] if len(opt.param_groups) == 1 else [f"{k}." for k in range(len(opt.param_groups))]
    known: dict[int, str] = {}
    for prefix, group in zip(prefixes, opt.param_groups, strict=True):
        known |= {id(p): f"{prefix}{i}" for i, p in enumerate(group["params"])}
        known |= {id(p): name for p, name in zip(group["params"], group.get("param_names", ()), strict=False)}
    if opt._attachment is not None:
        known |= opt._attachment.names
    if model is not None:
        known |= {id(p): name for name, p in unwrapped(model).named_parameters()}
    return known


@torch.no_grad()
def mean_field(opt: VariationalOptimizer, model: nn.Module | None = None) -> MeanFieldGaussian:
    """q as it is now, whole on every rank; weights that are not sampled are points."""
    name = names(opt, model)
    mean, precision, prior, point = {}, {}, {}, {}
    for group in opt.param_groups:
        for p in group["params"]:
            held = None if opt._sample is None else opt._sample.mean_of(p)
            mu = whole(p.detach() if held is None else held).clone()
            if group["deterministic"] or not p.requires_grad:
                point[name[id(p)]] = mu
            else:
                mean[name[id(p)]], precision[name[id(p)]] = mu, whole(opt._precision(group, p)).clone()
                if "prior_precision" in group:
                    prior[name[id(p)]] = group["prior_precision"]
    return MeanFieldGaussian(mean, precision, point=point, prior_precision=prior or None)
