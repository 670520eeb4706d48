"""The prior of a parameter group: numbers, or a mean and a precision for every weight.

A group's ``prior`` is a number (the mean of all its weights), "init" (the weights at construction) or "posterior" (an earlier
posterior, whose mean and precision become the prior's). Means and precisions per weight are kept in the optimizer's state, so that
checkpoints hold them.

Empirical Bayes (``learn_prior_every``): the bound depends on λ through E_q[log p(θ)] = ½ D log λ − ½ λ Σᵢ (σᵢ² + (μᵢ − μ₀)²) + const,
which is largest at λ = D / Σᵢ (σᵢ² + (μᵢ − μ₀)²). At a temperature T the prior of that bound is N(μ₀, T/λ), so λ is T times as large.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vadam.backends.bucket import storage_dtype
from vadam.backends.shards import is_sharded, whole
from vadam.gaussian import MeanFieldGaussian
from vadam.interrupts import without_grad
from vadam.optim.sample import mean_of
from vadam.rules.arguments import PRIOR_PRECISION, Argument
from vadam.rules.binding import RuleArgs, arg_names

if TYPE_CHECKING:
    from vadam.optim.rule_optimizer import Group, RuleOptimizer

MEAN, PRECISION = "prior_mean", "prior_precision"
FIELDS = (MEAN, PRECISION)
LEARN_EVERY = Argument(
    "learn_prior_every",
    0,
    "[0, inf)",
    "Number of steps between empirical-Bayes updates of prior_precision; 0 keeps it.",
)
LEARNED_RANGE = (1e-10, 1e10)


def check(group: Group) -> float | str:
    """Refuse a wrong ``prior``, and arguments that contradict it; return what the group keeps: a number, "init" or "posterior"."""
    given = group["prior"]
    every = group["learn_prior_every"]
    LEARN_EVERY.check(every)
    if every != int(every):
        raise ValueError(f"learn_prior_every must be a whole number of steps, got {every!r}")
    if isinstance(given, MeanFieldGaussian):
        _check_posterior(group)
        return "posterior"
    if isinstance(given, str) and given != "init":
        raise ValueError(f'prior must be a number, "init" or a MeanFieldGaussian, got {given!r}')
    if not isinstance(given, (str, float, int)):
        raise ValueError(
            f'prior must be a number, "init" or a MeanFieldGaussian (opt.posterior(model)), got a {type(given).__name__}'
        )
    return given


def _check_posterior(group: Group) -> None:
    if group["prior"].pruned:
        raise ValueError(
            "prior: the posterior is pruned, but the training would sample its pruned weights again: give the one that prune() was "
            "called on, and then hold the zeros by torch.nn.utils.prune.custom_from_mask with the masks that prune() returned"
        )
    if group["prior_precision"] != PRIOR_PRECISION.default:
        raise ValueError(
            f"prior_precision={group['prior_precision']!r} contradicts a posterior as prior, which brings its own precisions: "
            f"leave prior_precision out"
        )
    if group.get("init_precision") is not None:
        raise ValueError(
            f"init_precision={group['init_precision']!r} contradicts a posterior as prior: training starts at its precisions. "
            f"Leave init_precision out"
        )
    if group["learn_prior_every"]:
        raise ValueError(
            f"learn_prior_every={group['learn_prior_every']!r} contradicts a posterior as prior: its precisions are known. "
            f"Leave learn_prior_every out"
        )


def place(opt: RuleOptimizer, group: Group, given: Any) -> None:
    """Put the means and precisions of a new group's prior into the state."""
    if group.get(LEARN_EVERY.name):
        # Set it from the start: checkpoints of ranks load only the entries that a group has.
        group.setdefault("steps_with_prior", 0)
    if group.get("prior") == "init":
        for p in group["params"]:
            opt.state[p][MEAN] = mean_of(p).to(storage_dtype(p), copy=True)
    elif isinstance(given, MeanFieldGaussian):
        for p, name in zip(group["params"], _names(opt, group, given), strict=True):
            is_point = name in given.point
            if is_point and p.requires_grad and not group["deterministic"]:
                raise ValueError(
                    f"prior: {name!r} is a point of the posterior, a weight that was frozen or not sampled, so that nothing is known of "
                    f'its precision. Give such weights a group of their own with "prior": "init" and a "prior_precision", or with '
                    f'"deterministic": True'
                )
            mean = given.point[name] if is_point else given.mean[name]
            found = {MEAN: mean}
            if not is_point:
                found[PRECISION] = _precision(given, name, group)
            elif group["deterministic"]:
                found[PRECISION] = torch.full_like(mean, group["prior_precision"])
            for field, value in found.items():
                if value.shape != p.shape:
                    raise ValueError(
                        f"prior: {name!r} has shape {tuple(value.shape)}, but the parameter has shape {tuple(p.shape)}"
                    )
                opt.state[p][field] = _laid_out_as(p, value)


def _precision(given: MeanFieldGaussian, name: str, group: Group) -> Tensor:
    """Return the precisions of an earlier posterior; those of the group's own temperature before it divided them.

    So tasks one after the other at one temperature end at the joint posterior of that temperature, and what ``tempered()`` has
    divided them by since stays.
    """
    T, total = group["temperature"], given.temperature.get(name, 1.0)
    own = total == T or math.isclose(T, total / given.tempered_by.get(name, 1.0))
    return given.precision[name] * T if own else given.precision[name]


def _names(opt: RuleOptimizer, group: Group, post: MeanFieldGaussian) -> list[str]:
    """Return each parameter's name in the earlier posterior: by the parameters' own names, otherwise by their order."""
    if "param_names" in group:
        names = list(group["param_names"])
        missing = next((name for name in names if name not in post.mean and name not in post.point), None)
        if missing is not None:
            raise ValueError(f"prior: the posterior has no parameter {missing!r}, but {[*post.mean, *post.point]}")
        return names
    earlier = [other for other in opt.param_groups if other is not group and other.get("prior") == "posterior"]
    first = sum(len(other["params"]) for other in earlier if other["deterministic"] == group["deterministic"])
    names = [*(post.point if group["deterministic"] else post.mean)][first : first + len(group["params"])]
    if len(names) < len(group["params"]):
        raise ValueError(
            f"prior: the posterior has {len(post.mean)} sampled parameters and {len(post.point)} points, which are too few for "
            f"this optimizer's: pass model.named_parameters(), so that they are matched by name"
        )
    return names


def check_order(opt: RuleOptimizer, given: Any) -> None:
    """Refuse a posterior for all groups of which weights would be left over where it is matched by order: which ones is unknown."""
    if not isinstance(given, MeanFieldGaussian):
        return
    ordered = [group for group in opt.param_groups if group.get("prior") == "posterior" and "param_names" not in group]
    for deterministic, weights in ((False, given.mean), (True, given.point)):
        count = sum(len(group["params"]) for group in ordered if group["deterministic"] == deterministic)
        if 0 < count < len(weights):
            raise ValueError(
                f"prior: the posterior has {len(weights)} {'points' if deterministic else 'sampled parameters'}, but the optimizer "
                f"has {count}, so their order does not say which belong together: pass model.named_parameters()"
            )


def _laid_out_as(p: Tensor, value: Tensor) -> Tensor:
    """Return a copy on the device of a parameter, sharded as it is."""
    copy = value.detach().to(p.device, storage_dtype(p), copy=True)
    if not is_sharded(p):
        return torch.empty_like(p, dtype=copy.dtype).copy_(copy)
    from torch.distributed.tensor import DTensor, distribute_tensor  # slow to import

    assert isinstance(p, DTensor)
    return distribute_tensor(copy, p.device_mesh, p.placements)


def per_weight(numbers: RuleArgs, group: Group, state: Any) -> RuleArgs:
    """Return a rule's arguments with the prior's mean and precision as lists of tensors where they differ between weights."""
    kind = group.get("prior", 0.0)
    if not isinstance(kind, str):
        return numbers
    found = {**numbers, "mu0": [state[p][MEAN] for p in group["params"]]}
    if kind == "posterior":
        precisions = [_precision_to_train(p, state[p]) for p in group["params"]]
        T = group["temperature"]
        found["lam"] = precisions if T == 1 else list(torch._foreach_div(precisions, T))
    return found


def _precision_to_train(p: Tensor, state: Any) -> Tensor:
    """Return the prior's precision of a parameter; of a frozen point of the posterior, which has none, its mean, which nothing reads."""
    if PRECISION in state:
        return state[PRECISION]
    if p.requires_grad:
        raise RuntimeError(
            f"a parameter of shape {tuple(p.shape)} is trained now, but it was frozen when this optimizer was built and is a point of the "
            f"posterior given as prior, so that nothing is known of its precision: build a new optimizer after requires_grad_(True), with "
            f'a group for it that has "prior": "init" and a "prior_precision"'
        )
    return state[MEAN]


def at_start(rule: ModuleType, numbers: RuleArgs, group: Group, state: dict[str, Any]) -> RuleArgs:
    """Return the arguments of ``rule.init``: an earlier posterior's precisions are the start of every weight.

    Rules that keep the start as one number s₀ = (init_precision − λ)/N need the numbers: there both precisions cancel.
    """
    if PRECISION not in state or "s0" in rule.State._fields:
        return numbers
    precision = state[PRECISION] / group["temperature"]
    return {**numbers, "lam": precision, "init_precision": precision}


def of(group: Group, state: dict[str, Any]) -> tuple[float | Tensor, float | Tensor]:
    """Return the mean and the precision of a parameter's prior, whole on every rank."""
    return _whole(state.get(MEAN, group.get("prior", 0.0))), _whole(state.get(PRECISION, group["prior_precision"]))


def _whole(x: Any) -> float | Tensor:
    return whole(x).clone() if isinstance(x, Tensor) else x


@without_grad
def learn(opt: RuleOptimizer) -> None:
    """Set ``prior_precision`` of each group that is due to λ = T D / Σ (σ² + (μ − μ₀)²); this reads a number per group from the device."""
    for group in opt.param_groups:
        every = group.get("learn_prior_every", 0)
        if not every or group["deterministic"]:
            continue
        group["steps_with_prior"] = group.get("steps_with_prior", 0) + 1
        if group["steps_with_prior"] < every:
            continue
        group["steps_with_prior"] = 0
        spread = torch.zeros((), dtype=torch.float64, device="cpu")
        count = 0
        widest: list[Tensor] = []
        for p, variance in opt._variances(group):
            mean, _ = of(group, opt.state[p])
            mu = whole(p.detach()).to(storage_dtype(p))
            spread = spread + (variance + (mu - mean) ** 2).sum(dtype=torch.float64)
            count += p.numel()
            widest += [variance.max()] if p.numel() else []
        if count:
            total, largest = torch.stack([spread, torch.stack(widest).max().to(spread)]).tolist()
            low, high = LEARNED_RANGE
            learned = min(max(group["temperature"] * count / total, low), high)
            group["prior_precision"] = max(learned, _least(opt, group, largest))


def _least(opt: RuleOptimizer, group: Group, variance: float) -> float:
    """Return a bound below which a prior precision leaves a weight without variance, given the largest variance of all.

    The precision N s + τλ of a weight of negative curvature s is positive only thanks to the prior, which must stay twice as
    strong as that curvature, or as it is.
    """
    rule, numbers = opt._rule_and_numbers(group)
    of_prior = numbers.get("tau", 1.0) * numbers["lam"] if "lam" in arg_names(rule.precision) else 0.0
    if not of_prior:
        return 0.0
    negative = of_prior - 1 / variance
    return group["prior_precision"] * min(2 * negative / of_prior, 1.0)
