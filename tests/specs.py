"""One row per optimizer: how to build it, which ways of use it has, what it refuses. Every contract test runs over these rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import vadam

LINEAR = ("closure", "context", "attach")


@dataclass(frozen=True)
class Spec:
    name: str
    build: Callable[..., vadam.VariationalOptimizer]
    kwargs: dict[str, Any]
    ways: tuple[str, ...] = LINEAR
    backward: bool = True  # whether the closure calls backward()
    state: frozenset[str] = frozenset()
    bad: tuple[tuple[dict[str, Any], str], ...] = ()
    needs_attach: bool = False
    degree: int = 2  # ĥ's power of the gradient
    differentiable: bool = True
    has_prior: bool = True
    launches: int = 60  # most operations of a step on a device, however many tensors there are
    mean_field: bool = True  # False for a full covariance over all weights, which share a dtype and a rate
    elementwise: bool = True  # False if the rule sees the shape of a tensor

    @property
    def can_be_sharded(self) -> bool:
        """True if the optimizer works on shards of weights, as under FSDP2."""
        return not self.needs_attach and self.elementwise

    @property
    def records_squares_outside_gradients(self) -> bool:
        return self.needs_attach

    def make(self, params: Any, **changes: Any) -> vadam.VariationalOptimizer:
        return self.build(params, **{**self.kwargs, **changes})

    def make_for(self, model: nn.Module, **changes: Any) -> vadam.VariationalOptimizer:
        opt = self.make(model.parameters(), **changes)
        return opt.attach(model) if self.needs_attach else opt

    def __str__(self) -> str:
        return self.name


COMMON_BAD = (
    ({"lr": "0.1"}, r"lr must be in \[0, inf\), got '0.1'"),
    ({"num_data": True}, r"num_data must be in \(0, inf\), got True"),
    ({"lr": -1e-3}, r"lr must be in \[0, inf\), got -0.001"),
    ({"lr": float("nan")}, r"lr must be .* got nan"),
    ({"num_data": 0}, r"num_data must be .* got 0.*len\(train_set\)"),
    ({"num_data": -5}, r"num_data must be .* got -5"),
    ({"num_data": float("nan")}, r"num_data must be .* got nan"),
    ({"samples": 0}, r"samples must be a whole number of at least 1, got 0"),
    ({"samples": 1.5}, r"samples must be a whole number of at least 1, got 1.5"),
    ({"samples": 3, "antithetic": True}, r"samples must be even with antithetic=True, .*got 3"),
    ({"samples": True}, r"samples must be a whole number of at least 1, got True"),
    ({"lr": 10**400}, r"lr must be in \[0, inf\), got 1000"),
    ({"antithetic": None}, r"antithetic must be True or False, got None"),
    ({"store_mean": float("nan")}, r"store_mean must be True or False, got nan"),
    ({"nonfinite": ["skip"]}, r"nonfinite must be one of 'raise', 'skip', got \['skip'\]"),
    ({"nonfinite": "ignore"}, r"nonfinite must be one of 'raise', 'skip', got 'ignore'"),
    ({"temperature": 0.0}, r"temperature must be in \(0, inf\), got 0.0"),
    ({"data_weight": -1.0}, r"data_weight must be in \(0, inf\), got -1.0"),
    ({"backend": "gpu"}, r"backend must be one of 'auto', 'plain', 'native', 'compiled', got 'gpu'"),
)
PRIOR_BAD = (
    ({"prior_precision": -1.0}, r"prior_precision must be in \[0, inf\), got -1.0"),
    ({"prior_precision": float("nan")}, r"prior_precision must be .* got nan"),
    ({"prior_precision": float("inf")}, r"prior_precision must be .* got inf"),
    ({"prior": float("nan")}, r"prior must be in \(-inf, inf\), got nan"),
    ({"prior": "zero"}, r'prior must be a number, "init" or a MeanFieldGaussian, got \'zero\''),
    ({"prior": [0.0]}, r'prior must be a number, "init" or a MeanFieldGaussian \(opt.posterior\(model\)\), got a list'),
    ({"learn_prior_every": -1}, r"learn_prior_every must be in \[0, inf\), got -1"),
    ({"learn_prior_every": 1.5}, r"learn_prior_every must be a whole number of steps, got 1.5"),
)
INIT_BAD = (
    ({"prior_precision": 2.0, "init_precision": 1.0}, r"init_precision must be at least prior_precision=2.0, got 1.0"),
    ({"init_precision": float("nan")}, r"init_precision must be .* got nan"),
    ({"prior_precision": 0.0, "init_precision": "prior"}, r"infinite variance"),
    ({"init_precision": "wide"}, r"init_precision must be in \[0, inf\) or \"prior\", got 'wide'"),
)
BATCH_BAD = (
    ({"batch_size": 0}, r"batch_size must be in \[1, inf\), got 0"),
    ({"batch_size": 40}, r"batch_size must be below num_data=40, got 40.*VOGN, or VadamGGN without batch_size"),
    ({"batch_size": 1000}, r"batch_size must be below num_data=40, got 1000"),
)
BETAS_BAD = (
    ({"betas": (1.0, 0.999)}, r"betas\[0\] must be in \[0, 1\), got 1.0"),
    ({"betas": (0.9, 1.0)}, r"betas\[1\] must be in \[0, 1\), got 1.0"),
    ({"betas": (0.9, -0.1)}, r"betas\[1\] must be in \[0, 1\), got -0.1"),
    ({"betas": 0.9}, r"betas must be 2 numbers, .* got 0.9"),
)
BETA_BAD = (
    ({"beta": 1.0}, r"beta must be in \[0, 1\), got 1.0"),
    ({"beta": -0.1}, r"beta must be in \[0, 1\), got -0.1"),
)
TAU_BAD = (({"tau": 1.5}, r"tau must be in \[0, 1\], got 1.5"), ({"tau": -0.1}, r"tau must be in \[0, 1\], got -0.1"))
MOMENTUM_BAD = (
    ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1.0"),
    ({"damping": -1.0}, r"damping must be in \[0, inf\), got -1.0"),
    ({"exact_momentum": 1}, r"exact_momentum must be True or False, got 1"),
)

N = 40
_DATA: dict[str, Any] = {"num_data": N, "prior_precision": 2.0}

SPECS = [
    Spec(
        "Vadam",
        vadam.Vadam,
        {"lr": 0.02, "betas": (0.9, 0.99), "init_precision": 20.0, **_DATA},
        launches=40,
        state=frozenset({"m", "s", "s0", "gamma1_t", "gamma2_t"}),
        bad=(
            *COMMON_BAD,
            *PRIOR_BAD,
            *INIT_BAD,
            *BATCH_BAD,
            *BETAS_BAD,
            *TAU_BAD,
            ({"sampling_precision": -1.0}, r"sampling_precision must be in \[0, inf\), got -1.0"),
            ({"start_in_step": 1.0}, r"start_in_step must be True or False, got 1.0"),
        ),
    ),
    Spec(
        "Vprop",
        vadam.Vprop,
        {"lr": 0.02, "beta": 0.99, "init_precision": 20.0, **_DATA},
        launches=40,
        state=frozenset({"s", "s0"}),
        bad=(*COMMON_BAD, *PRIOR_BAD, *INIT_BAD, *BATCH_BAD, *BETA_BAD, *TAU_BAD, MOMENTUM_BAD[0]),
    ),
    Spec(
        "Vprop-momentum",
        vadam.Vprop,
        {"lr": 0.01, "beta": 0.99, "init_precision": 20.0, "momentum": 0.9, **_DATA},
        state=frozenset({"u", "s", "s0"}),
    ),
    Spec(
        "VOGN",
        vadam.VOGN,
        {"lr": 0.02, "beta": 0.99, "init_precision": 20.0, **_DATA},
        state=frozenset({"s"}),
        needs_attach=True,
        bad=(
            *COMMON_BAD,
            *PRIOR_BAD,
            *INIT_BAD,
            *BETA_BAD,
            *TAU_BAD,
            *MOMENTUM_BAD,
        ),
    ),
    Spec(
        "VOGN-momentum",
        vadam.VOGN,
        {"lr": 0.01, "beta": 0.99, "init_precision": 20.0, "momentum": 0.9, "damping": 1e-3, **_DATA},
        state=frozenset({"u", "s"}),
        needs_attach=True,
    ),
    Spec(
        "VOGN-exact-momentum",
        vadam.VOGN,
        {"lr": 0.01, "beta": 0.99, "init_precision": 20.0, "momentum": 0.9, "exact_momentum": True, **_DATA},
        state=frozenset({"u", "v", "s"}),
        needs_attach=True,
    ),
    Spec(
        "VadamGGN",
        vadam.VadamGGN,
        {"lr": 0.02, "betas": (0.9, 0.99), "init_precision": 20.0, **_DATA},
        state=frozenset({"m", "s", "s0", "gamma1_t", "gamma2_t"}),
        needs_attach=True,
        bad=(*COMMON_BAD, *PRIOR_BAD, *INIT_BAD, *BATCH_BAD, *BETAS_BAD, *TAU_BAD),
    ),
    Spec(
        "VON",
        vadam.VON,
        {"lr": 0.02, "beta": 0.99, "init_precision": 20.0, **_DATA},
        state=frozenset({"s", "peak"}),
        degree=1,
        bad=(
            *COMMON_BAD,
            *PRIOR_BAD,
            *INIT_BAD,
            *BETA_BAD,
            *TAU_BAD,
            *MOMENTUM_BAD,
            ({"curvature": "hessian"}, r"curvature must be one of .* got 'hessian'"),
            ({"probes": 0}, r"probes must be a whole number of at least 1, got 0"),
            ({"backtrack": 1.0}, r"backtrack must be in \(0, 1\), got 1.0"),
            ({"step_bound": 0.0}, r"step_bound must be in \(0, inf\], got 0.0"),
        ),
    ),
    Spec(
        "VON-exact",
        vadam.VON,
        {"lr": 0.02, "beta": 0.99, "init_precision": 20.0, "curvature": "exact", **_DATA},
        ways=("closure",),
        backward=False,
        state=frozenset({"s", "peak"}),
    ),
    Spec(
        "VON-hutchinson",
        vadam.VON,
        {"lr": 0.02, "beta": 0.99, "init_precision": 20.0, "curvature": "hutchinson", "momentum": 0.5, **_DATA},
        ways=("closure",),
        backward=False,
        state=frozenset({"u", "s", "peak"}),
    ),
    Spec(
        "VON-score",
        vadam.VON,
        {"lr": 0.001, "beta": 0.99, "init_precision": 20.0, "curvature": "score", "step_bound": float("inf"), **_DATA},
        ways=("closure",),
        backward=False,
        state=frozenset({"s"}),
        differentiable=False,
    ),
    Spec(
        "FullVON",
        vadam.FullVON,
        {"lr": 0.02, "beta": 0.99, "init_precision": 20.0, "momentum": 0.5, **_DATA},
        ways=("closure",),
        backward=False,
        state=frozenset({"u", "S"}),
        mean_field=False,
        bad=(
            *COMMON_BAD,
            *PRIOR_BAD,
            *INIT_BAD,
            *BETA_BAD,
            *TAU_BAD,
            MOMENTUM_BAD[0],
            ({"limit": 5}, r"more than limit=5 allows"),
        ),
    ),
    Spec(
        "VadaGrad",
        vadam.VadaGrad,
        {"lr": 0.02, "beta": 0.5, "init_precision": 100.0},
        launches=40,
        state=frozenset({"s"}),
        has_prior=False,
        bad=(
            *COMMON_BAD,
            ({"beta": 0.0}, r"beta must be in \(0, 1e15\], got 0.0"),
            ({"beta": 3.5e38}, r"beta must be in \(0, 1e15\], got 3.5e\+38"),  # infinity in float32
            ({"init_precision": 0.0}, r"init_precision must be in \(0, inf\), got 0.0"),
        ),
    ),
    Spec(
        "BBVI",
        vadam.BBVI,
        {"lr": 0.02, "init_precision": 20.0, **_DATA},
        state=frozenset({"rho", "m_mu", "s_mu", "m_rho", "s_rho", "gamma1_t", "gamma2_t"}),
        degree=1,
        bad=(
            *COMMON_BAD,
            *PRIOR_BAD,
            *BETAS_BAD,
            ({"init_precision": 0.0}, r"init_precision must be in \(0, inf\) or \"prior\", got 0.0"),
            ({"eps": -1.0}, r"eps must be in \[0, inf\), got -1.0"),
        ),
    ),
    Spec(
        "IVON",
        vadam.IVON,
        {"lr": 0.1, "hess_init": 0.5, "clip_radius": float("inf"), **_DATA},
        state=frozenset({"m", "s", "s0", "beta1_t"}),
        degree=1,
        bad=(
            *COMMON_BAD,
            *PRIOR_BAD,
            *BETAS_BAD,
            ({"hess_init": 0.0}, r"hess_init must be in \(0, inf\), got 0.0"),
            ({"clip_radius": 0.0}, r"clip_radius must be in \(0, inf\], got 0.0"),
        ),
    ),
    Spec(
        "EVON",
        vadam.EVON,
        {"lr": 0.1, "betas": (0.9, 0.999), "hess_init": 0.5, "basis_beta": 0.9, "basis_every": 2, **_DATA},
        state=frozenset({"m", "s", "L", "R", "QL", "QR", "s0", "beta1_t", "t"}),
        degree=1,
        launches=64,  # for each tensor
        elementwise=False,
        bad=(
            *COMMON_BAD,
            *PRIOR_BAD,
            *BETAS_BAD,
            ({"hess_init": 0.0}, r"hess_init must be in \(0, inf\), got 0.0"),
            ({"basis_beta": 1.0}, r"basis_beta must be in \[0, 1\), got 1.0"),
            ({"basis_every": 0}, r"basis_every must be in \[1, inf\), got 0"),
            ({"basis_every": 2.5}, r"basis_every must be a whole number, got 2.5"),
            ({"max_side": 0}, r"max_side must be in \[1, inf\), got 0"),
        ),
    ),
]

BY_NAME = {spec.name: spec for spec in SPECS}


class Problem:
    """A small regression network with one layer used twice, and the loops in which each way of use trains it."""

    dtype = torch.float64  # where a test does not ask for another
    device = "cpu"

    def __init__(self, dtype: torch.dtype | None = None, seed: int = 0) -> None:
        self.dtype = dtype = self.dtype if dtype is None else dtype
        g = torch.Generator().manual_seed(seed)
        with torch.device("cpu"), torch.random.fork_rng():  # the same numbers on every device
            x = torch.randn(N, 3, generator=g, dtype=torch.float64)
            noise = torch.randn(N, 1, generator=g, dtype=torch.float64)
            torch.manual_seed(seed)
            model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.x = x.to(self.device, dtype)
        self.y = self.x[:, :1].sin() + 0.1 * noise.to(self.device, dtype)
        self.model = model.to(self.device, dtype)

    def loss(self, rows: slice = slice(None)) -> Tensor:
        return (self.model(self.x[rows]) - self.y[rows]).square().mean()

    def closure(self, opt: vadam.VariationalOptimizer, spec: Spec, rows: slice = slice(None)) -> Callable[[], Tensor]:
        def closure() -> Tensor:
            opt.zero_grad()
            loss = self.loss(rows)
            if spec.backward:
                loss.backward()
            return loss

        return closure

    def step(
        self, opt: vadam.VariationalOptimizer, spec: Spec, way: str = "closure", rows: slice = slice(None)
    ) -> None:
        if way == "closure":
            opt.step(self.closure(opt, spec, rows))
        elif way == "context":
            opt.zero_grad()
            for _ in range(opt.samples):
                with opt.sampled_params():
                    self.loss(rows).backward()
            opt.step()
        elif way == "attach":
            opt.zero_grad()
            for _ in range(opt.samples):
                self.loss(rows).backward()
            opt.step()

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.model.parameters()]


def tolerance(double: float, single: float) -> float:
    """Return how far rounding may lead, in the dtype of the problems."""
    return double if Problem.dtype is torch.float64 else single


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def snapshot(opt: torch.optim.Optimizer) -> list[Tensor]:
    """Return all state tensors, in order."""
    params = [p for group in opt.param_groups for p in group["params"]]
    return [torch.as_tensor(opt.state[p][k]).clone() for p in params if p in opt.state for k in sorted(opt.state[p])]
