"""The arithmetic of a step on long vectors: the rules' equations, in chunks that stay in the cache, or compiled.

Each kernel writes into vectors of one length. ``Chunked`` calls it on cuts of them, ``Compiled`` on the whole, through
``torch.compile``: there is one function to read and two ways to run it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, get_type_hints

import torch
from torch import Tensor

from vadam import counter, curvature

CHUNK = 1 << 16  # twice the least size that torch gives to a second thread
Numbers = dict[str, float]
Kernel = Callable[..., None]


@cache
def vector_fields(rule: ModuleType) -> tuple[str, ...]:
    """What a rule keeps for every weight, besides the mean; the rest of its state are numbers."""
    return tuple(name for name, kind in get_type_hints(rule.State).items() if kind is Tensor and name != "mu")


@cache
def number_fields(rule: ModuleType) -> tuple[str, ...]:
    return tuple(name for name, kind in get_type_hints(rule.State).items() if kind is not Tensor)


def _state(rule: ModuleType, mu: Tensor, vectors: Sequence[Tensor], numbers: Numbers) -> Any:
    names = [name for name in rule.State._fields[1:] if name not in numbers]
    return rule.State(mu=mu, **dict(zip(names, vectors, strict=True)), **numbers)


def gaussian_(rule: None, vectors: Sequence[Tensor], key: Tensor) -> None:
    """ε, two at each position."""
    position, first, second = vectors
    for target, eps in zip((first, second), counter.gaussian_pair(key, position, first.dtype), strict=True):
        target.copy_(eps)


def shift_(
    rule: ModuleType, vectors: Sequence[Tensor], numbers: Numbers, letters: Numbers, extra: float, sign: float
) -> None:
    """θ ← θ ± ε/√(precision + extra)."""
    theta, eps, *state = vectors
    precision = rule.precision(_state(rule, theta, state, numbers), **letters) + extra
    theta.add_(sign * eps * precision.rsqrt())


def reparameterised_(
    rule: ModuleType, vectors: Sequence[Tensor], numbers: Numbers, letters: Numbers, extra: float, sign: float
) -> None:
    """ĥ ← ĝ∘ε/σ."""
    eps, h, g, *state = vectors
    precision = rule.precision(_state(rule, g, state, numbers), **letters) + extra
    h.copy_(curvature.reparameterised(g, sign * eps, precision))


def update_(rule: ModuleType, vectors: Sequence[Tensor], numbers: Numbers, letters: Numbers) -> None:
    """The rule, for a given ĥ."""
    mu, g, h, *state = vectors
    _write((mu, *state), rule.update(_state(rule, mu, state, numbers), g, h, **letters), numbers)


def update_with_magnitude_(rule: ModuleType, vectors: Sequence[Tensor], numbers: Numbers, letters: Numbers) -> None:
    """The rule, for ĥ = ĝ∘ĝ."""
    mu, g, *state = vectors
    _write((mu, *state), rule.update(_state(rule, mu, state, numbers), g, curvature.magnitude(g), **letters), numbers)


def _write(vectors: Sequence[Tensor], new: Any, numbers: Numbers) -> None:
    names = [name for name in new._fields if name not in numbers]
    for vector, name in zip(vectors, names, strict=True):
        vector.copy_(getattr(new, name))


def updated_numbers(rule: ModuleType, numbers: Numbers, letters: Numbers) -> Numbers:
    """The numbers of the state after an update; they do not depend on the weights, so none are needed."""
    nothing = torch.empty(0)
    state = _state(rule, nothing, [nothing] * len(vector_fields(rule)), numbers)
    new = rule.update(state, nothing, nothing, **letters)
    return {name: float(getattr(new, name)) for name in number_fields(rule)}


class Chunked:
    def __call__(self, kernel: Kernel, rule: ModuleType | None, vectors: Sequence[Tensor], *numbers: Any) -> None:
        for start, end in pairwise(_cuts(len(vectors[0]))):
            kernel(rule, [x[start:end] for x in vectors], *numbers)


def _cuts(n: int) -> list[int]:
    """Where chunks begin and end. torch shares a chunk among two threads, half each, and leaves half a chunk to one: what is left
    over is cut in halves, so that no number of threads ever cuts elsewhere and rounds the edge of its part otherwise.
    """
    whole = n - n % CHUNK
    return [*range(0, whole, CHUNK), *range(whole, n, CHUNK // 2), n]


class Compiled:
    """Falls back to chunks, with a warning, where nothing can be compiled."""

    def __call__(self, kernel: Kernel, rule: ModuleType | None, vectors: Sequence[Tensor], *numbers: Any) -> None:
        if len(vectors[0]):
            names = tuple(tuple(x) if isinstance(x, dict) else None for x in numbers)
            _compiled(kernel, rule, vectors[0].dtype, names)(vectors, *_as_vector(numbers))


def _as_vector(numbers: Sequence[Any]) -> tuple[Tensor, ...]:
    """All numbers as one vector: what changes from step to step must not be compiled as a constant. A tensor stays what it is."""
    if any(isinstance(x, Tensor) for x in numbers):
        return tuple(numbers)
    values = [value for x in numbers for value in (x.values() if isinstance(x, dict) else (x,))]
    return (torch.tensor(values, dtype=torch.float64, device="cpu"),)


def _as_arguments(names: tuple[tuple[str, ...] | None, ...], numbers: Tensor) -> Iterator[Any]:
    """The other way: the arguments of a kernel."""
    at = 0
    for group in names:
        if group is None:
            yield numbers[at]
        else:
            yield {name: numbers[at + i] for i, name in enumerate(group)}
        at += 1 if group is None else len(group)


@cache
def _compiled(
    kernel: Kernel, rule: ModuleType | None, dtype: torch.dtype, names: tuple[tuple[str, ...] | None, ...]
) -> Callable[..., None]:
    def run(vectors: Sequence[Tensor], numbers: Tensor) -> None:
        kernel(rule, vectors, *(_as_arguments(names, numbers) if numbers.is_floating_point() else (numbers,)))

    # A code object of its own: torch counts compilations per code object and gives up after a few.
    own = FunctionType(run.__code__.replace(), run.__globals__, kernel.__name__, run.__defaults__, run.__closure__)
    fast = torch.compile(own, dynamic=True, fullgraph=True)
    works: bool | None = None

    def run_what_works(vectors: Sequence[Tensor], numbers: Tensor) -> None:
        nonlocal works
        if works is not False:
            try:
                with _first_time() if works is None else nullcontext():
                    fast(vectors, numbers)
                works = True
                return
            except Exception as error:  # of the compiler: it has not run anything yet
                reason = " ".join(str(error).split("\n\n")[0].split())
                warnings.warn(
                    f"the optimizer's arithmetic cannot be compiled here, so its steps are slower ({type(error).__name__}: {reason})",
                    stacklevel=3,
                )
                works = False
        Chunked()(lambda _, cuts, z: run(cuts, z), rule, vectors, numbers)

    return run_what_works


@contextmanager
def _first_time() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch's compiler says to its own developers
        yield
