"""Declare the arguments of the rules: name, default, interval, one sentence each; refuse wrong values.

Every rule lists its arguments in ``ARGUMENTS``. The optimizers' defaults and checks, the ensemble's methods and the tables of the
documentation follow from these lists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

REQUIRED = object()
"""The default of an argument that has none."""


class Argument(NamedTuple):
    """An argument of an optimizer: ``interval`` is read as mathematics, "[0, 1)", or is "bool"."""

    name: str
    default: Any
    interval: str
    description: str
    example: str = ""

    def check(self, value: Any) -> None:
        """Raise if the value is outside the interval; each number of a pair is checked."""
        if self.interval == "bool":
            if not isinstance(value, bool):
                raise ValueError(f"{self.name} must be True or False, got {value!r}")
        elif isinstance(self.default, tuple):
            if not isinstance(value, tuple | list) or len(value) != len(self.default):
                raise ValueError(f"{self.name} must be {len(self.default)} numbers, e.g. {self.default}, got {value!r}")
            for i, x in enumerate(value):
                self._check_number(f"{self.name}[{i}]", x)
        else:
            self._check_number(self.name, value)

    def _check_number(self, name: str, value: Any) -> None:
        if not contains(self.interval, value):
            hint = f": {self.example}" if self.example else ""
            raise ValueError(f"{name} must be in {self.interval}, got {value!r}{hint}")


def contains(interval: str, value: Any) -> bool:
    """Return True if the value is a number inside an interval such as "[0, 1)" or "(0, inf]"."""
    try:
        x = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError):
        return False
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = x >= low if interval[0] == "[" else x > low
    return above and (x <= high if interval[-1] == "]" else x < high)


def check(arguments: Sequence[Argument], values: dict[str, Any]) -> None:
    """Refuse wrong values; fill in an ``init_precision`` that was left out and refuse one below the prior's."""
    for argument in arguments:
        if argument.name != "init_precision" or values["init_precision"] is not None:
            argument.check(values[argument.name])
    if any(argument is INIT_PRECISION for argument in arguments):
        _check_start(values)
    elif "init_precision" in values and values["init_precision"] is None:
        values["init_precision"] = values["prior_precision"]
        next(argument for argument in arguments if argument.name == "init_precision").check(values["init_precision"])


def _check_start(values: dict[str, Any]) -> None:
    """Refuse a start below the prior: s₀ = (init_precision − λ)/N is an average of squares."""
    lam = values["prior_precision"]
    if values["init_precision"] is None:
        values["init_precision"] = lam
    start = values["init_precision"]
    if start < lam:
        raise ValueError(
            f"init_precision must be at least prior_precision={lam!r}, got {start!r}: the posterior cannot start wider than the prior"
        )
    tau, extra = values.get("tau", 1.0), values.get("sampling_precision", 0.0)
    if start - lam + tau * lam + extra == 0 and not values.get("deterministic", False):
        raise ValueError(
            f"prior_precision={lam!r}, init_precision={start!r} and tau={tau!r} would sample weights of infinite variance: "
            f"give an init_precision above the prior's, e.g. init_precision=num_data"
        )


def defaults(arguments: Sequence[Argument]) -> dict[str, Any]:
    """Return the defaults of all arguments that have one."""
    return {argument.name: argument.default for argument in arguments if argument.default is not REQUIRED}


def data_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every rule with a prior takes: N, λ, and the precision at the start."""
    return {"N": values["num_data"], "lam": values["prior_precision"], "init_precision": values["init_precision"]}


LR = Argument("lr", 1e-3, "[0, inf)", "Learning rate α.", "e.g. lr=1e-3")
BETAS = Argument("betas", (0.9, 0.999), "[0, 1)", "Decay rates of the averages of the gradient and of its square.")
BETA = Argument("beta", 0.999, "[0, 1)", "Decay rate of the average of the curvature.")
NUM_DATA = Argument(
    "num_data",
    REQUIRED,
    "(0, inf)",
    "Number of training examples N. The loss is the mean over a minibatch; N turns it into the total.",
    "the number of training examples, e.g. num_data=len(train_set)",
)
PRIOR_PRECISION = Argument(
    "prior_precision", 1.0, "[0, inf)", "Precision λ of the prior N(0, 1/λ) on every weight. It replaces weight decay."
)
INIT_PRECISION = Argument(
    "init_precision", None, "[0, inf)", "Precision of the posterior at the start; by default that of the prior."
)
TAU = Argument("tau", 1.0, "[0, 1]", "1 for inference, 0 for optimisation, anneal it for what lies between.")
SAMPLING_PRECISION = Argument(
    "sampling_precision", 0.0, "[0, inf)", "Constant added to the precision for sampling only (paper App. K)."
)
MOMENTUM = Argument("momentum", 0.0, "[0, 1)", "Natural momentum γ̄.")
DAMPING = Argument("damping", 0.0, "[0, inf)", "Constant added to the denominator of the step.")
AUGMENTATION = Argument(
    "augmentation", 1.0, "(0, inf)", "Factor of the effective number of data under data augmentation."
)
EPS = Argument("eps", 1e-8, "[0, inf)", "Constant that Adam adds to the denominator.")
