"""Declare the arguments of the rules: name, default, interval, one sentence each; refuse wrong values.

Every rule lists its arguments in ``ARGUMENTS``. The optimizers' defaults and checks, the ensemble's methods and the tables of the
documentation follow from these lists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

REQUIRED = object()
"""The default of an argument that has none."""
SCALES = ("num_data", "data_weight", "temperature", "prior_precision")
"""Arguments whose ratios multiply weights and precisions."""


class Argument(NamedTuple):
    """An argument of an optimizer: ``interval`` is read as mathematics, "[0, 1)", or is "bool"; ``words`` are allowed as well."""

    name: str
    default: Any
    interval: str
    description: str
    example: str = ""
    words: tuple[str, ...] = ()

    def check(self, value: Any) -> None:
        """Raise if the value is outside the interval; each number of a pair is checked. None stands for a default of None."""
        if (value is None and self.default is None) or (isinstance(value, str) and value in self.words):
            return
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
            words = "".join(f' or "{word}"' for word in self.words)
            raise ValueError(f"{name} must be in {self.interval}{words}, got {value!r}{hint}")


def contains(interval: str, value: Any) -> bool:
    """Return True if the value is a number inside an interval such as "[0, 1)" or "(0, inf]"."""
    try:
        x = math.nan if isinstance(value, str | bytes | bool | Decimal) else float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = x >= low if interval[0] == "[" else x > low
    return above and (x <= high if interval[-1] == "]" else x < high)


def check(arguments: Sequence[Argument], values: dict[str, Any]) -> None:
    """Raise for wrong values, and replace an ``init_precision`` of None or "prior" by its number."""
    for argument in arguments:
        argument.check(values[argument.name])
    _check_batch_size(*(_number(values.get(name)) for name in ("batch_size", "num_data")))
    _check_scale(values)
    start = next((argument for argument in arguments if argument.name == "init_precision"), None)
    if start is not None and start.words:
        _fill_start(start, values)
        start.check(values["init_precision"])
        if starts_above_prior(arguments):
            _check_start(values)


def _fill_start(argument: Argument, values: dict[str, Any]) -> None:
    """Replace "prior" by the prior's precision and None by a multiple of the number of data, where that is larger.

    Fig. 1 to the letter (``start_in_step``) has the start in its steps, which a narrow one would stop: there None is "prior".
    """
    prior, start = _tempered(values["prior_precision"], values), values["init_precision"]
    if start == "prior" or (start is None and values.get("start_in_step")):
        values["init_precision"] = prior
    elif start is None:
        multiple = NEWTON_START if argument is NEWTON_INIT_PRECISION else START
        values["init_precision"] = max(prior, _tempered(multiple * values["num_data"] * values["data_weight"], values))


def _tempered(precision: float, values: Mapping[str, Any]) -> float:
    T = values["temperature"]
    return precision if T == 1 else precision / T


def starts_above_prior(arguments: Sequence[Argument]) -> bool:
    """Return True if the posterior must not start wider than the prior."""
    return any(argument is INIT_PRECISION or argument is NEWTON_INIT_PRECISION for argument in arguments)


def _check_start(values: dict[str, Any]) -> None:
    """Refuse a start below the prior: s₀ = (init_precision − λ)/N is an average of squares."""
    lam, temperature = values["prior_precision"], values["temperature"]
    tempered, start = _tempered(lam, values), values["init_precision"]
    if start < tempered:
        prior = f"prior_precision={lam!r}" + ("" if temperature == 1 else f" / temperature={temperature!r}")
        raise ValueError(
            f"init_precision must be at least {prior}, got {start!r}: the posterior cannot start wider than the prior"
        )
    tau, extra = values.get("tau", 1.0), values.get("sampling_precision", 0.0)
    if start - tempered + tau * tempered + extra == 0 and not values.get("deterministic", False):
        raise ValueError(
            f"prior_precision={lam!r}, init_precision={start!r} and tau={tau!r} would sample weights of infinite variance: "
            f"give an init_precision above the prior's, e.g. init_precision=num_data"
        )


def _check_scale(values: dict[str, Any]) -> None:
    """Refuse numbers of data, weights of them, temperatures and priors whose ratios single precision cannot hold."""
    N, w, T, lam = (float(values.get(name, 1.0)) for name in SCALES)
    beyond = 1e30
    if not 1 / beyond <= N * w <= beyond or not 1 / beyond <= T <= beyond or max(lam / T, lam / (N * w)) > beyond:
        given = ", ".join(f"{name}={values[name]!r}" for name in SCALES if name in values)
        raise ValueError(
            f"{given}: the ratio of two of them is above {beyond:g}, which single precision cannot hold. Bring them closer together"
        )


def _check_batch_size(M: Any, N: Any) -> None:
    """Refuse a minibatch that is the whole data set: Theorem 1's w is 0, so ĝ∘ĝ says nothing of the curvature."""
    if isinstance(M, int | float) and isinstance(N, int | float) and M != 1 and M >= N:
        raise ValueError(
            f"batch_size must be below num_data={N!r}, got {M!r}: the squared gradient of all data at once says nothing about "
            f"the curvature. Train on minibatches, or use VOGN, or VadamGGN without batch_size"
        )


def defaults(arguments: Sequence[Argument]) -> dict[str, Any]:
    """Return the defaults of all arguments that have one."""
    return {argument.name: argument.default for argument in arguments if argument.default is not REQUIRED}


def data_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the common arguments of rules with a prior: N, λ, the prior's mean μ₀, and the initial precision.

    A temperature T divides N and λ; a data weight ρ multiplies N.
    """
    N = values["num_data"] * values["data_weight"] / values["temperature"]
    mean = values["prior"]
    lam = values["prior_precision"] / values["temperature"]
    return {
        "N": N,
        "lam": lam,
        "mu0": 0.0 if isinstance(mean, str) else mean,
        "init_precision": values.get("init_precision"),
    }


def _number(x: Any) -> Any:
    """Return the number that a tensor or a scalar of numpy holds; anything else as it is."""
    return x.item() if hasattr(x, "item") else x


def theorem1_weight(M: Any, N: Any) -> Any:
    """Return Theorem 1's w = (1/M)(N − M)/(N − 1): E[ĝ∘ĝ] ≈ w · mean of squared per-example gradients; 1 without a batch size."""
    _check_batch_size(M, N)
    return 1.0 if M is None or M == 1 else (N - M) / (M * (N - 1))


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
DATA_WEIGHT = Argument(
    "data_weight",
    1.0,
    "(0, inf)",
    "How often each example counts: above 1 for a cold likelihood, or for what data augmentation is worth.",
)
TEMPERATURE = Argument(
    "temperature", 1.0, "(0, inf)", "Temperature T of the posterior: it divides the precision and leaves the mean."
)
PRIOR_PRECISION = Argument(
    "prior_precision", 1.0, "[0, inf)", "Precision λ of the Gaussian prior on every weight. It replaces weight decay."
)
PRIOR = Argument(
    "prior",
    0.0,
    "(-inf, inf)",
    'Mean of the prior: a number, "init" for the weights at construction, or an earlier posterior, whose mean and precision it takes.',
)
DATA_AND_PRIOR = (NUM_DATA, DATA_WEIGHT, TEMPERATURE, PRIOR_PRECISION, PRIOR)
BATCH_SIZE = Argument(
    "batch_size",
    None,
    "[1, inf)",
    "Number of examples M of a step. With it the precision counts s/w, Theorem 1's correction; without it s, as in the paper.",
)
START, NEWTON_START = 10.0, 1.0
"""Default precision of the posterior at the start, in multiples of the number of data (``benchmarks.defaults``).

VOGN, VON and FullVON start wider: the start is in the denominator of their steps, and a narrower one would stop them.
"""
INIT_PRECISION = Argument(
    "init_precision",
    None,
    "[0, inf)",
    'Precision of the posterior at the start; by default 10 num_data, which networks train on. "prior" starts at the prior, as the '
    "paper does.",
    words=("prior",),
)
NEWTON_INIT_PRECISION = INIT_PRECISION._replace(
    description='Precision of the posterior at the start; by default num_data. "prior" starts at the prior, as the paper does.'
)
TAU = Argument("tau", 1.0, "[0, 1]", "1 for inference, 0 for optimisation, anneal it for what lies between.")
SAMPLING_PRECISION = Argument(
    "sampling_precision", 0.0, "[0, inf)", "Constant added to the precision for sampling only (paper App. K)."
)
MOMENTUM = Argument("momentum", 0.0, "[0, 1)", "Natural momentum γ̄.")
EXACT_MOMENTUM = Argument(
    "exact_momentum",
    False,
    "bool",
    "Carry the last change of mean and precision over exactly (paper App. E.3, before Σₜ₋₁ ≈ Σₜ).",
)
START_IN_STEP = Argument(
    "start_in_step",
    False,
    "bool",
    "Count the start in the denominator of the step too, which is the paper to the letter: shorter steps at first.",
)
DAMPING = Argument("damping", 0.0, "[0, inf)", "Constant added to the denominator of the step.")
EPS = Argument("eps", 1e-8, "[0, inf)", "Constant that Adam adds to the denominator.")
