"""Run the stochastic loop over a stack of logistic regressions, compiled in blocks of steps.

One step draws ε and a minibatch for every member (with replacement, or from shuffled epochs), evaluates at θ = μ + ε/√precision

    ĝ = mean_i (σ(xᵢᵀθ) − yᵢ) xᵢ      ĥ = ĝ∘ĝ (magnitude),  mean_i (σ − yᵢ)² xᵢ² (ggn),  mean_i σ(1 − σ) xᵢ² (hessian)

and applies a rule. A Python step costs 150 µs at any size; ``UNROLLED`` steps compiled together cost 20 µs each.

Random numbers are drawn outside the compiled part, in chunks that depend only on the chunk's number. A run resumed from a
checkpoint therefore equals the uninterrupted run, bit for bit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from vadam import compiling
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.logreg.problem import Problem
from vadam_paper.experiments.randomness import generator

UNROLLED = 8
CHUNK_ELEMENTS = 2**21
MAX_CHUNK = 512


class Rule(Protocol):
    """A module of ``vadam.rules``, or a variant of one."""

    init: Callable[..., Any]
    precision: Callable[..., Tensor]
    update: Callable[..., Any]


Rates = Callable[[Tensor], dict[str, Tensor]]
"""Maps iteration numbers t to the rule's rates by name, each as long as t."""


@dataclass(frozen=True)
class Method:
    """A rule with its curvature, rates, minibatch size and number of steps."""

    rule: Rule
    curvature: str
    rates: Rates
    batch_size: int
    steps: int
    init_precision: float | None = None
    """Precision of q at the start; None for the prior precision."""
    w: float | None = None
    """Theorem 1's factor, by which the rule's precision divides s; None for a rule without it."""
    shuffled: bool = False
    """Draw minibatches without replacement, from epochs in random order; a last part of fewer than M rows is left out."""

    def precision(self, state: Any, N: float, lam: Tensor) -> Tensor:
        """Return the precision of q."""
        corrected = {} if self.w is None else {"w": self.w}
        return self.rule.precision(state, N=N, lam=lam, **corrected)


class Snapshot(NamedTuple):
    """Mean and precision of q after a step."""

    step: int
    mean: Tensor
    precision: Tensor


def train(
    problem: Problem,
    method: Method,
    start: Tensor,
    context: CellContext,
    *,
    seed: int,
    key: str,
    compiled: bool,
    keep_at: tuple[int, ...] = (),
) -> list[Snapshot]:
    """Run all steps from the means ``start`` [E, D].

    Return the snapshots at or after the steps ``keep_at``, and last the one of the final step.
    """
    N, lam = float(problem.num_data), problem.prior_precision
    loop = _loop(method, compiled)
    state, first, kept = _resume(problem, method, start, context)
    wanted = [step for step in sorted(keep_at) if step < method.steps]
    for done, chunk in _chunks(problem, method, first, seed, key):
        state = loop(state, *chunk, N, lam)
        step = min(done, method.steps)
        if len(kept) < len(wanted) and step >= wanted[len(kept)]:
            kept.append(Snapshot(step, state.mu, method.precision(state, N, lam)))
        context.report(step / method.steps)
        context.checkpoint(_tensors(state, kept), {"step": done, "kept": [snapshot.step for snapshot in kept]})
    return [*kept, Snapshot(method.steps, state.mu, method.precision(state, N, lam))]


def _chunks(
    problem: Problem, method: Method, first: int, seed: int, key: str
) -> Iterator[tuple[int, tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]]]:
    """Yield minibatches [K, E, M, D], their labels, ε and the rates, K steps at a time."""
    E, M, D = problem.members, method.batch_size, problem.dimension
    size = max(1, min(MAX_CHUNK, CHUNK_ELEMENTS // (E * M * D)) // UNROLLED) * UNROLLED
    members = torch.arange(E)[:, None]
    for begin in range(first, method.steps, size):
        random = generator(seed, key, begin)
        K = min(size, method.steps - begin)
        drawn = _epochs if method.shuffled else _with_replacement
        rows = problem.train[members, drawn(problem.num_data, size, E, M, random)[:K]]
        eps = torch.randn(size, E, D, generator=random, dtype=problem.pool.dtype)[:K]
        t = torch.arange(begin + 1, begin + K + 1, dtype=torch.float64)
        x = problem.pool.index_select(0, rows.flatten()).view(K, E, M, D)
        yield begin + K, (x, problem.labels[rows], eps, method.rates(t))


def _with_replacement(N: int, steps: int, E: int, M: int, random: torch.Generator) -> Tensor:
    return torch.randint(N, (steps, E, M), generator=random)


def _epochs(N: int, steps: int, E: int, M: int, random: torch.Generator) -> Tensor:
    """Return minibatches [steps, E, M] from epochs in random order."""
    in_epoch = N // M
    orders = [torch.rand(E, N, generator=random).argsort(1) for _ in range(-(-steps // in_epoch))]
    return torch.cat([order[:, : in_epoch * M].view(E, in_epoch, M).transpose(0, 1) for order in orders])[:steps]


def _loop(method: Method, compiled: bool) -> Callable[..., Any]:
    rule, curvature = method.rule, method.curvature

    def steps(state: Any, x: Tensor, y: Tensor, eps: Tensor, rates: dict[str, Tensor], N: float, lam: Tensor) -> Any:
        for k in range(eps.shape[0]):
            theta = state.mu + eps[k] * method.precision(state, N, lam).rsqrt()
            g, h = gradient_and_curvature(x[k], y[k], theta, curvature)
            state = rule.update(state, g, h, N=N, lam=lam, **{name: rate[k] for name, rate in rates.items()})
        return state

    unrolled = (
        compiling.compiled(steps, subject="the loop", consequence="so this takes longer", dynamic=False)
        if compiled
        else steps
    )

    def loop(state: Any, x: Tensor, y: Tensor, eps: Tensor, rates: dict[str, Tensor], N: float, lam: Tensor) -> Any:
        for begin in range(0, len(eps), UNROLLED):
            k = slice(begin, begin + UNROLLED)
            body = unrolled if len(eps[k]) == UNROLLED else steps
            state = body(state, x[k], y[k], eps[k], {name: rate[k] for name, rate in rates.items()}, N, lam)
        return state

    return loop


def gradient_and_curvature(x: Tensor, y: Tensor, theta: Tensor, curvature: str) -> tuple[Tensor, Tensor]:
    """Return ĝ and ĥ [E, D] of the mean negative log-likelihood at θ [E, D].

    The minibatches are x [E, M, D] and y [E, M].
    """
    p = torch.sigmoid((x * theta[:, None, :]).sum(-1))
    residual = (p - y)[..., None]
    g = (residual * x).mean(1)
    match curvature:
        case "magnitude":
            return g, g * g
        case "ggn":
            return g, (residual**2 * x**2).mean(1)
        case "hessian":
            return g, ((p * (1 - p))[..., None] * x**2).mean(1)
    raise ValueError(f"curvature must be magnitude, ggn or hessian, got {curvature!r}")


def _resume(problem: Problem, method: Method, start: Tensor, context: CellContext) -> tuple[Any, int, list[Snapshot]]:
    N, lam = float(problem.num_data), problem.prior_precision
    P0 = lam if method.init_precision is None else method.init_precision
    state = method.rule.init(start, init_precision=P0, N=N, lam=lam)
    if hasattr(state, "t"):
        state = state._replace(t=torch.zeros((), dtype=start.dtype))
    restored = context.restore()
    if restored is None:
        return state, 0, []
    tensors, meta = restored
    kept = [
        Snapshot(step, mean, precision)
        for step, mean, precision in zip(meta["kept"], tensors["means"], tensors["precisions"], strict=True)
    ]
    return type(state)(*(tensors[name] for name in state._fields)), meta["step"], kept


def _tensors(state: Any, kept: list[Snapshot]) -> dict[str, Tensor]:
    nothing = torch.empty(0, *state.mu.shape, dtype=state.mu.dtype)
    means = torch.stack([snapshot.mean for snapshot in kept]) if kept else nothing
    precisions = torch.stack([snapshot.precision for snapshot in kept]) if kept else nothing.clone()
    return {**state._asdict(), "means": means, "precisions": precisions}
