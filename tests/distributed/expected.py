"""Read from an optimizer's state what an expected update needs: the fields of the rule, and the largest gradient that bounds a step."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor


def fields(rule: ModuleType, state: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a state that belong to the rule."""
    return {name: value for name, value in state.items() if name in rule.State._fields}


def largest_gradient(opt: torch.optim.Optimizer, params: list[Tensor], grads: list[Tensor]) -> dict[str, Any]:
    """Return the argument ``peak`` of rules whose step is bounded: p₊ = max((1 − β) p, |ĝ|∞) over all weights."""
    decay = opt.param_groups[0].get("beta", 0.0)
    bounded = [(opt.state[p]["peak"], g) for p, g in zip(params, grads, strict=True) if "peak" in opt.state[p]]
    found = [max(decay * float(old), float(g.abs().max())) for old, g in bounded]
    return {"peak": max(found)} if found else {}
