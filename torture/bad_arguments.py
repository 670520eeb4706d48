"""Wrong arguments: refused at once by name, or the optimizer that accepts them trains; a refused step changes nothing."""

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import vadam
from specs import BY_NAME, SPECS, Spec, same
from torture.case import Case, Failed, Outcome
from torture.fuzzing import fuzz

ODD: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    -1.0,
    -0.0,
    0,
    0.0,
    1,
    1.0,
    2,
    3,
    5,
    0.5,
    1.5,
    1e-320,
    1e-45,
    1e300,
    1.7e308,
    -1e300,
    10**400,
    -(10**400),
    2**63,
    True,
    False,
    None,
    "",
    "1",
    "prior",
    "auto",
    "init",
    "nan",
    b"1",
    [],
    [1.0],
    (0.9,),
    (0.9, 0.99),
    (0.9, 0.99, 0.9),
    {},
    {"a": 1},
    1j,
    object(),
    Fraction(1, 3),
    Decimal("0.1"),
    Decimal("NaN"),
    np.float32(0.1),
    np.float64("nan"),
    np.int64(7),
    np.array(0.5),
    np.array([1.0, 2.0]),
    np.bool_(True),
    torch.tensor(0.5),
    torch.tensor([0.1, 0.2]),
    torch.tensor(math.nan),
    torch.float32,
    nn.Linear(1, 1),
    lambda: 1,
    (math.nan, 0.9),
    ("0.9", 0.9),
    [0.9, 1.0],
    (10**400, 0.5),
    "plain",
    "raise",
    "skip",
    "exact",
    "compiled",
    range(2),
    {0.5},
]

RANGES = {
    "lr": "[0, inf)", "num_data": "(0, inf)", "prior_precision": "[0, inf)", "tau": "[0, 1]", "sampling_precision": "[0, inf)",
    "momentum": "[0, 1)", "damping": "[0, inf)", "eps": "[0, inf)", "temperature": "(0, inf)", "data_weight": "(0, inf)",
    "hess_init": "(0, inf)", "clip_radius": "(0, inf]", "basis_beta": "[0, 1)", "backtrack": "(0, 1)",
}  # fmt: skip
WHOLE = {"samples": 1, "probes": 1, "basis_every": 1, "max_side": 1, "learn_prior_every": 0}
FLAGS = ("start_in_step", "exact_momentum", "rescale_lr", "antithetic", "store_mean")
WORDS = {"nonfinite": ("raise", "skip"), "backend": ("auto", "plain", "native", "compiled")}
COMMON = (
    "samples",
    "antithetic",
    "generator",
    "nonfinite",
    "backend",
    "store_mean",
    "temperature",
    "data_weight",
    "prior",
    "learn_prior_every",
)
REFUSALS = (ValueError, TypeError)
STEP_REFUSALS = (ValueError, TypeError, RuntimeError, FloatingPointError)
HUGE = 1e15
"""A larger learning rate or mean of the prior overflows float32 weights, as large rates do with torch's optimizers."""


def is_wrong(name: str, value: Any) -> bool:
    """Return True if the documentation rules this value out; False also where it does not say."""
    if name in FLAGS:
        return not isinstance(value, bool | np.bool_)
    if name in WORDS:
        return not isinstance(value, str) or value not in WORDS[name]
    if name in WHOLE:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return isinstance(value, bool | str | bytes | list | tuple | dict | set | type(None)) or (
            is_number and (value < WHOLE[name] or value % 1 != 0)
        )
    if name in RANGES:
        return isinstance(value, bool | str | bytes | list | tuple | dict | set | type(None) | complex) or not _inside(
            RANGES[name], value
        )
    return False


def _inside(interval: str, value: Any) -> bool:
    if not isinstance(value, int | float | np.floating | np.integer):
        return True  # the documentation does not say
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return bool(above and below)


def names_of(spec: Spec) -> list[str]:
    own = [name for name in inspect.signature(spec.build).parameters if name not in ("params", "common")]
    return [*own, *(name for name in COMMON if spec.has_prior or name not in ("prior", "learn_prior_every"))]


@st.composite
def settings_of_an_optimizer(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    spec = draw(st.sampled_from(SPECS))
    names = draw(st.lists(st.sampled_from(names_of(spec)), min_size=1, max_size=3, unique=True))
    values = st.one_of(st.sampled_from(ODD), st.floats(), st.integers())
    return spec.name, {name: draw(values) for name in names}


def check_arguments(example: tuple[str, dict[str, Any]]) -> str:
    name, changes = example
    spec = BY_NAME[name]
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    torch.manual_seed(0)
    kwargs = {**spec.kwargs, **changes}
    if kwargs.get("backend") == "compiled":
        kwargs["backend"] = changes["backend"] = "plain"
    wrong = [key for key, value in changes.items() if is_wrong(key, value)]
    given = f"{name}({', '.join(f'{k}={v!r}' for k, v in changes.items())})"
    try:
        opt = spec.build(model.parameters(), **kwargs)
    except REFUSALS as error:
        said = str(error)
        if not any(key in said for key in kwargs):
            raise Failed(f"{given} is refused without the name of an argument: {said}") from error
        return "arguments refused"
    except Exception as error:
        raise Failed(f"{given} raises {type(error).__name__}: {error}") from error
    if wrong:
        raise Failed(f"{given} is accepted, but {wrong[0]} must not be {changes[wrong[0]]!r}")
    huge = any(isinstance(kwargs.get(key), int | float) and abs(kwargs[key]) > HUGE for key in ("lr", "prior"))
    if huge or kwargs.get("samples", 1) > 8:
        return "arguments accepted"
    if spec.needs_attach:
        opt.attach(model)
    train(given, spec, model, opt)
    return "arguments accepted"


def train(given: str, spec: Spec, model: nn.Module, opt: vadam.VariationalOptimizer) -> None:
    """Take two steps: the weights stay finite and the precision positive, or a refusal leaves everything as it was."""
    x, y = torch.ones(4, 2), torch.zeros(4, 1)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        if spec.backward:
            loss.backward()
        return loss

    for _ in range(2):
        before = everything(opt)
        try:
            opt.step(closure)
        except STEP_REFUSALS as error:
            after = everything(opt)
            if before and not same(after[: len(before)], before):
                raise Failed(f"{given}: a refused step ({error}) changed weights or state") from error
            return
        except Exception as error:
            raise Failed(f"{given}: step raises {type(error).__name__}: {error}") from error
        check_sound(given, opt)


def everything(opt: torch.optim.Optimizer) -> list[Tensor]:
    """Return weights, then state where there is any: the first step makes the state, also if it is refused."""
    params = [p for group in opt.param_groups for p in group["params"]]
    state = [torch.as_tensor(opt.state[p][k]) for p in params if p in opt.state for k in sorted(opt.state[p])]
    return [x.detach().clone() for x in (*params, *state)]


def check_sound(given: str, opt: vadam.VariationalOptimizer) -> None:
    """Raise unless weights are finite and precisions are finite and positive."""
    if not all(bool(p.isfinite().all()) for group in opt.param_groups for p in group["params"]):
        raise Failed(f"{given}: a weight is not finite")
    if isinstance(opt, vadam.FullVON):
        return  # an indefinite Hessian is refused in words by the next step, and by posterior()
    precision = opt.posterior().precision
    for name, value in precision.items():
        if not bool(value.isfinite().all() and (value > 0).all()):
            raise Failed(f"{given}: the precision of {name} is {value.flatten()[:4].tolist()}")


def arguments(case: Case) -> Outcome:
    return fuzz(case, settings_of_an_optimizer(), check_arguments, examples=100)
