"""The bucket of a rule that sees the whole model, such as FullVON's."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket
from vadam.rules.binding import RuleArgs, call, scope

if TYPE_CHECKING:
    from vadam.optim.rule_optimizer import RuleOptimizer


def model_bucket(opt: RuleOptimizer, wanted: set[Tensor]) -> list[Bucket]:
    """Return the one bucket of a rule that sees the whole model: an argument in which groups differ becomes a vector."""
    found = [(p, group, *_rule_and_args(opt, p, group)) for group, p in opt._grouped() if p in wanted]
    found = [row for row in found if scope(row[2]) == "model"]
    if not found:
        return []
    params, groups, (rule, *_), rule_args = (list(column) for column in zip(*found, strict=True))
    first = params[0]
    if any(name not in opt.state[first] for name in rule.State._fields[1:]):
        numbers = [opt._rule_and_numbers(group)[1] for group in groups]
        with torch.inference_mode(False):
            mu = torch.cat([p.detach().flatten() for p in params])
            opt.state[first].update(call(rule.init, mu, rule_args=_joint(params, numbers))._asdict())
        del opt.state[first]["mu"]
    return [Bucket(rule, _joint(params, rule_args), params, [opt.state[p] for p in params])]


def _rule_and_args(opt: RuleOptimizer, p: Tensor, group: dict[str, Any]) -> tuple[ModuleType, RuleArgs]:
    """Return the rule of a parameter and its arguments; those per weight are tensors in its shape."""
    rule, rule_args = opt._rule_and_args(group)
    i = next(i for i, q in enumerate(group["params"]) if q is p)
    return rule, {name: value[i] if isinstance(value, list) else value for name, value in rule_args.items()}


def _joint(params: list[Tensor], rule_args: list[RuleArgs]) -> RuleArgs:
    """Return the arguments of all parameters together: an argument in which they differ becomes a vector."""
    joint = {}
    for name, value in rule_args[0].items():
        values = [other[name] for other in rule_args]
        same = not isinstance(value, Tensor) and all(other == value for other in values)
        parts = zip(params, values, strict=True)
        joint[name] = value if same else torch.cat([(torch.zeros_like(p) + x).flatten() for p, x in parts])
    return joint
