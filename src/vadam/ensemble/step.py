"""One training step of a stack: sample the weights, compute the gradients, apply the rule.

    θₛ ← μ + σ∘εₛ,  s = 1, …, S
    ĝ ← 1/S Σₛ ĝₛ,  ĥ ← 1/S Σₛ ĥₛ
    state ← rule(state, ĝ, ĥ)

The same code serves every engine and method. The weights of a member lie end to end, so the state is a few matrices [E, P].
Compiled, the step is a few fused loops around the matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam import compiling
from vadam.ensemble import layout, noise
from vadam.ensemble.engine import Engine, Examples
from vadam.ensemble.layout import Shapes, Weights
from vadam.ensemble.method import Method, Numbers
from vadam.ensemble.minibatches import Batch
from vadam.rules.binding import Curvature


class Constants(NamedTuple):
    """The members' numbers that do not change between steps."""

    numbers: Numbers  # arguments of the rule, [E, 1] each
    noise_precision: Tensor  # [E]
    dropout: Tensor  # [E]


Step = Callable[[Any, Batch, Constants], Any]


def start(method: Method, mean: Tensor, constants: Constants) -> Any:
    """Return the state at the weights ``mean`` [E, P]; its scalars become tensors [E, 1]."""
    state = method.init(mean, method.rule_args(constants.numbers))
    return type(state)(*(x if isinstance(x, Tensor) else torch.full_like(mean[:, :1], x) for x in state))


def step(method: Method, engine: Engine, shapes: Shapes, state: Any, batch: Batch, constants: Constants) -> Any:
    """Return the state after one step of every member."""
    numbers, noise_precision, dropout = constants
    rule_args = method.rule_args({**numbers, "lr": batch.alpha[:, None]})
    S, M = method.samples, batch.x.shape[1]
    precision = method.sampling_precision(state, rule_args)
    epsilon: Weights = {}
    if precision is None:
        theta = points(state.mu, shapes, S)
    else:
        theta, epsilon = gaussian_samples(batch.key, state.mu, precision.rsqrt(), shapes, S)
    keep = dropout_masks(batch.key, dropout, theta, M) if method.drops_out else ()

    examples = Examples(batch.x, batch.y, batch.weight, noise_precision, keep)
    g, squares = engine.gradients(theta, examples, squares=method.curvature is Curvature.PER_EXAMPLE_SQUARES)
    g_hat = layout.joined({name: _mean(g[name]) for name in shapes})
    if method.curvature is Curvature.PER_EXAMPLE_SQUARES:
        h_hat = layout.joined({name: _mean(squares[name]) for name in shapes})
    elif method.curvature is Curvature.REPARAMETERISED:
        assert precision is not None
        h_hat = layout.joined({name: _mean(g[name] * epsilon[name]) for name in shapes}) * precision.sqrt()
    elif S == 1:
        h_hat = g_hat**2
    else:
        h_hat = layout.joined({name: _mean(g[name] ** 2) for name in shapes})

    updated = method.update(state, g_hat, h_hat, rule_args)
    active = batch.size[:, None] > 0
    return type(state)(*(torch.where(active, new, old) for new, old in zip(updated, state, strict=True)))


def _mean(x: Tensor) -> Tensor:
    """Return the mean over the samples, [E, S, ...] → [E, ...]."""
    return x.squeeze(1) if x.shape[1] == 1 else x.mean(1)


def points(mu: Tensor, shapes: Shapes, samples: int) -> Weights:
    """Return the mean as if it were S samples."""
    return {name: w.unsqueeze(1).expand(-1, samples, *w.shape[1:]) for name, w in layout.split(mu, shapes).items()}


def gaussian_samples(key: Tensor, mu: Tensor, sigma: Tensor, shapes: Shapes, samples: int) -> tuple[Weights, Weights]:
    """Return θ = μ + σ∘ε and ε, [E, S, ...] each."""
    normals = noise.normals(key, samples * mu.shape[1], mu.dtype)
    epsilon = layout.split(normals, shapes, samples)
    if samples == 1:  # a row of normals has the order of a row of weights
        return layout.split(mu + sigma * normals, shapes, samples), epsilon
    # Side by side in memory: otherwise the compiled step computes σ again for every sample.
    mu, sigma = torch.cat((mu, sigma), 1).chunk(2, 1)
    mus, sigmas = layout.split(mu, shapes), layout.split(sigma, shapes)
    theta = {name: mus[name].unsqueeze(1) + sigmas[name].unsqueeze(1) * epsilon[name] for name in shapes}
    return theta, epsilon


def dropout_masks(key: Tensor, rate: Tensor, theta: Weights, M: int, *, first: int = 0) -> tuple[Tensor, ...]:
    """Return masks [E, S, M, inputs] with 0 or 1/(1 − p) for the inputs of every linear layer.

    They are for M examples from ``first`` on.
    """
    matrices = [W for W in theta.values() if W.dim() == 4]
    E, S, sizes = len(key), matrices[0].shape[1], [W.shape[-1] for W in matrices]
    row = S * sum(sizes)
    uniform = (
        noise.uniforms(key, M * row, matrices[0].dtype, start=first * row).view(E, M, S, sum(sizes)).transpose(1, 2)
    )
    p = rate[:, None, None, None]
    return tuple(torch.where(u > p, 1 / (1 - p), torch.zeros_like(u)) for u in uniform.split(sizes, dim=-1))


def make(method: Method, engine: Engine, shapes: Shapes, batch_size: int, *, compiled: bool) -> Step:
    """Return the step as a function of its varying arguments."""
    if compiled:
        return _compiled(method, engine, tuple(shapes.items()), batch_size)
    return partial(step, method, engine, shapes)


@cache
def _compiled(method: Any, engine: Any, shapes: tuple[tuple[str, tuple[int, ...]], ...], batch_size: int) -> Step:
    """Return the step compiled by ``torch.compile``; if that fails at the first call, the step itself.

    There is one for every size of the network and of the minibatch, so that only the number of members may still vary.
    """
    eager = partial(step, method, engine, dict(shapes))

    def run(state: Any, batch: Batch, constants: Constants) -> Any:
        return eager(state, batch, constants)

    subject, consequence = "the step", "so training is slower"
    return compiling.compiled(
        run, subject=subject, consequence=consequence, options=_guards_on_tensors_alone(), fullgraph=True
    )


def _guards_on_tensors_alone() -> dict[str, Any]:
    """Return the options of torch.compile that skip its checks of everything but tensors, a fifth of the time of a call."""
    return {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe} if compiling.RECENT else {}
