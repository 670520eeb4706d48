"""Argument checks: the name, the value, the fix."""

import math
import operator
from typing import Any

import torch


def number(name: str, value: Any, *, low: float, high: float = math.inf, closed: str = "", fix: str) -> None:
    """Refuse a value outside the interval from ``low`` to ``high``; ``closed`` holds "[" or "]" for ends that belong to it."""
    try:
        x = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError):
        x = math.nan
    above = x >= low if "[" in closed else x > low
    below = x <= high if "]" in closed else x < high
    if not (above and below):
        raise ValueError(f"{name}={value!r} is not valid: {fix}")


def whole(name: str, value: Any, *, low: int, fix: str) -> None:
    try:
        valid = not isinstance(value, bool) and operator.index(value) >= low
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(f"{name}={value!r} is not valid: {fix}")


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not valid: choose one of {', '.join(map(repr, choices))}")


def generator(value: Any) -> None:
    if value is not None and not isinstance(value, torch.Generator):
        raise TypeError(f"generator={value!r} is not a torch.Generator: give torch.Generator().manual_seed({value!r})")


def unknown(optimizer: str, name: str) -> str:
    hints = {
        "weight_decay": "the prior is prior_precision: a weight decay w is prior_precision = num_data * w",
        "deterministic": "it belongs to a parameter group: [{'params': ..., 'deterministic': True}, ...]",
        "train_set_size": "it is num_data here",
        "ess": "it is num_data here",
        "mc_samples": "it is samples here",
    }
    return f"{optimizer} has no argument {name!r}: {hints.get(name, 'help(vadam.' + optimizer + ') lists them')}"


def deterministic(group: dict[str, Any]) -> None:
    if not isinstance(group["deterministic"], bool):
        raise ValueError(f"deterministic={group['deterministic']!r} is not valid: give True or False")
    if group["deterministic"] and group.get("prior_precision", 1.0) == 0:
        raise ValueError(
            "prior_precision=0 in a deterministic group leaves 0/0 where a gradient is zero: give a tiny one, e.g. 1e-8"
        )


def learning_rate(group: dict[str, Any]) -> None:
    number("lr", group["lr"], low=0, closed="[", fix="the learning rate must be a number of at least 0, e.g. lr=1e-3")


def betas(group: dict[str, Any]) -> None:
    value = group["betas"]
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"betas={value!r} is not valid: give two numbers, e.g. betas=(0.9, 0.999)")
    for i, beta in enumerate(value):
        number(
            f"betas[{i}]", beta, low=0, high=1, closed="[", fix="each beta is the weight of the old, from 0 to below 1"
        )


def beta(group: dict[str, Any]) -> None:
    number(
        "beta",
        group["beta"],
        low=0,
        high=1,
        closed="[",
        fix="beta is the weight of the old curvature, from 0 to below 1",
    )


def num_data(group: dict[str, Any]) -> None:
    fix = "give the number of training examples, e.g. num_data=len(train_set)"
    number("num_data", group["num_data"], low=0, fix=fix)


def prior(group: dict[str, Any]) -> None:
    fix = "the prior precision λ must be a finite number of at least 0, e.g. prior_precision=1.0"
    number("prior_precision", group["prior_precision"], low=0, closed="[", fix=fix)


def tau(group: dict[str, Any]) -> None:
    number("tau", group["tau"], low=0, high=1, closed="[]", fix="tau goes from 0 (optimisation) to 1 (inference)")


def sampling_precision(group: dict[str, Any]) -> None:
    fix = "it is added to the precision for sampling, so it must be at least 0"
    number("sampling_precision", group["sampling_precision"], low=0, closed="[", fix=fix)


def init_precision(group: dict[str, Any]) -> None:
    """q's precision at the start must be at least the prior's: s₀ = (init_precision − λ)/N is an average of squares."""
    lam = group["prior_precision"]
    if group["init_precision"] is None:
        group["init_precision"] = lam
    value = group["init_precision"]
    number(
        "init_precision",
        value,
        low=lam,
        closed="[",
        fix=f"the posterior cannot start wider than the prior: give at least prior_precision={lam!r}, or leave it out",
    )
    start = value - lam + group.get("tau", 1.0) * lam + group.get("sampling_precision", 0.0)
    if start == 0 and not group["deterministic"]:
        raise ValueError(
            f"prior_precision={lam!r}, init_precision={value!r} and tau={group.get('tau', 1.0)!r} would sample weights of infinite "
            f"variance: give an init_precision above the prior's, e.g. init_precision=num_data"
        )
