"""The arithmetic of a step on long vectors: the rules' equations, in chunks that stay in the cache, or compiled.

A kernel computes new vectors from vectors of one length. An engine applies it to the weights of pieces: ``Chunked`` to cuts of
them, ``Compiled`` to the whole, through ``torch.compile``, ``native.Native`` as a loop of its own. There is one function to read and
three ways to run it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple, Protocol, cast, get_type_hints

import torch
from torch import Tensor

from vadam import compiling, curvature
from vadam.optim.distributed import whole
from vadam.optim.noise import blocks, gaussian_pairs_
from vadam.optim.pieces import Piece, Slot

CHUNK = 1 << 16  # twice the least size that torch gives to a second thread
Numbers = dict[str, float]
Kernel = Callable[..., Sequence[Any]]
Receipt = ctypes.c_int64


class Task(NamedTuple):
    """writes ← kernel(rule, reads, *numbers) for the weights of a piece; with noise, ε of its ``stream`` comes before what is read.

    A slot that is written and read from is the same object in both places.
    """

    piece: Piece
    reads: Sequence[Slot]
    writes: Sequence[Slot]
    numbers: Sequence[Numbers | float] = ()
    stream: int = 0
    receipt: Receipt | None = None  # becomes 1 when a task that cannot be interrupted has been done


class Engine(Protocol):
    def takes(self, piece: Piece) -> bool:
        """Whether it does the tasks of a piece together with all others, without a moment in which it could be interrupted."""

    def __call__(self, kernel: Kernel, tasks: Sequence[Task], seed: int | None = None) -> None: ...

    def norms(self, tensors: Sequence[Tensor]) -> list[float]:
        """Of each tensor; finite only if the squares are."""


@cache
def vector_fields(rule: ModuleType) -> tuple[str, ...]:
    """What a rule keeps for every weight, besides the mean; the rest of its state are numbers."""
    return tuple(name for name, kind in get_type_hints(rule.State).items() if kind is Tensor and name != "mu")


@cache
def number_fields(rule: ModuleType) -> tuple[str, ...]:
    return tuple(name for name, kind in get_type_hints(rule.State).items() if kind is not Tensor)


def _state(rule: ModuleType, mu: Any, vectors: Sequence[Any], numbers: Numbers) -> Any:
    names = [name for name in rule.State._fields[1:] if name not in numbers]
    return rule.State(mu=mu, **dict(zip(names, vectors, strict=True)), **numbers)


def _vectors(state: Any, numbers: Numbers) -> list[Any]:
    return [getattr(state, name) for name in state._fields if name not in numbers]


# Kernels -----------------------------------------------------------------------------------------------------------------


def deviate(
    rule: ModuleType, vectors: Sequence[Any], numbers: Numbers, letters: Numbers, extra: float, sign: float
) -> Sequence[Any]:
    """θ = μ ± ε/√(precision + extra); and μ, for who keeps it."""
    eps, mu, *state = vectors
    precision = rule.precision(_state(rule, mu, state, numbers), **letters) + extra
    return mu + sign * eps * precision.rsqrt(), mu


def reparameterise(
    rule: ModuleType, vectors: Sequence[Any], numbers: Numbers, letters: Numbers, extra: float, sign: float
) -> Sequence[Any]:
    """ĥ = ĝ∘ε/σ."""
    eps, g, *state = vectors
    precision = rule.precision(_state(rule, g, state, numbers), **letters) + extra
    return (curvature.reparameterised(g, sign * eps, precision),)


def update(rule: ModuleType, vectors: Sequence[Any], numbers: Numbers, letters: Numbers) -> Sequence[Any]:
    """The rule, for a given ĥ."""
    mu, g, h, *state = vectors
    return _vectors(rule.update(_state(rule, mu, state, numbers), g, h, **letters), numbers)


def update_with_magnitude(
    rule: ModuleType, vectors: Sequence[Any], numbers: Numbers, letters: Numbers
) -> Sequence[Any]:
    """The rule, for ĥ = ĝ∘ĝ."""
    mu, g, *state = vectors
    return update(rule, (mu, g, curvature.magnitude(g), *state), numbers, letters)


class _Weights:
    """Stands for weights whose values do not matter."""

    def _itself(self, *_: Any, **__: Any) -> _Weights:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _itself
    __pow__ = __neg__ = _itself

    def __getattr__(self, name: str) -> Callable[..., _Weights]:
        return self._itself

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> _Weights:
        return cls()


def updated_numbers(rule: ModuleType, numbers: Numbers, letters: Numbers) -> Numbers:
    """The numbers of the state after an update; they do not depend on the weights."""
    weights = _Weights()
    new = rule.update(_state(rule, weights, [weights] * len(vector_fields(rule)), numbers), weights, weights, **letters)
    return {name: getattr(new, name) for name in number_fields(rule)}


# Engines -----------------------------------------------------------------------------------------------------------------


class Torch:
    """Piece by piece, on vectors that are views of a tensor or copies of several, laid end to end."""

    def takes(self, piece: Piece) -> bool:
        return False

    def __call__(self, kernel: Kernel, tasks: Sequence[Task], seed: int | None = None) -> None:
        for piece, reads, writes, numbers, stream, _ in tasks:
            vectors = [piece.vector(slot) for slot in reads]
            places = [next((i for i, read in enumerate(reads) if read is target), None) for target in writes]
            targets = [piece.room(slot) if i is None else vectors[i] for slot, i in zip(writes, places, strict=True)]
            if seed is None:
                self.run(kernel, piece.rule, vectors, targets, *numbers)
            else:
                for part, eps in blocks(piece, seed, stream, self.draw):
                    cut = [x[part] for x in vectors]
                    cut_targets = [x[part] if i is None else cut[i] for x, i in zip(targets, places, strict=True)]
                    self.run(kernel, piece.rule, [eps, *cut], cut_targets, *numbers)
            for slot, target in zip(writes, targets, strict=True):
                piece.write(target, slot)

    def norms(self, tensors: Sequence[Tensor]) -> list[float]:
        found = [whole(norm).to("cpu", torch.float64) for norm in torch._foreach_norm(list(tensors))] if tensors else []
        return cast(list[float], torch.stack(found).tolist()) if found else []

    def run(
        self, kernel: Kernel, rule: ModuleType, vectors: Sequence[Tensor], targets: Sequence[Tensor], *numbers: Any
    ) -> None:
        """targets ← kernel(rule, vectors, *numbers)."""
        raise NotImplementedError

    def draw(self, pairs: Tensor, position: Tensor, key: Tensor) -> None:
        """The noise of tiles."""
        raise NotImplementedError


class Chunked(Torch):
    def run(
        self, kernel: Kernel, rule: ModuleType, vectors: Sequence[Tensor], targets: Sequence[Tensor], *numbers: Any
    ) -> None:
        for start, end in pairwise(_cuts(len(vectors[0]), CHUNK)):
            results = kernel(rule, [x[start:end] for x in vectors], *numbers)
            for target, result in zip(targets, results, strict=False):
                target[start:end] = result

    def draw(self, pairs: Tensor, position: Tensor, key: Tensor) -> None:
        half = pairs.shape[2]
        for start, end in pairwise(_cuts(len(position), max(CHUNK, 2 * half))):
            gaussian_pairs_(pairs[start // half : -(-end // half)], position[start:end], key)


def _cuts(n: int, chunk: int) -> list[int]:
    """Where chunks begin and end. torch shares a chunk among two threads, half each, and leaves half a chunk to one: what is left
    over is cut in halves, so that no number of threads ever cuts elsewhere and rounds the edge of its part otherwise.
    """
    rest = n - n % chunk
    return [*range(0, rest, chunk), *range(rest, n, chunk // 2), n]


class Compiled(Torch):
    """Falls back to chunks, with a warning, where nothing can be compiled."""

    def run(
        self, kernel: Kernel, rule: ModuleType, vectors: Sequence[Tensor], targets: Sequence[Tensor], *numbers: Any
    ) -> None:
        if len(vectors[0]):
            places = tuple(next((i for i, x in enumerate(vectors) if x is target), -1) for target in targets)
            others = [target for target, i in zip(targets, places, strict=True) if i < 0]
            values = [value for x in numbers for value in (x.values() if isinstance(x, dict) else (x,))]
            # All numbers as one vector: what changes from step to step must not be compiled as a constant.
            numbers_ = torch.tensor(values, dtype=torch.float64, device="cpu")
            _compiled(kernel, rule, vectors[0].dtype, names_of(numbers), places)(vectors, others, numbers_)

    def draw(self, pairs: Tensor, position: Tensor, key: Tensor) -> None:
        _compiled_draw()(pairs, position, key)


def names_of(numbers: Sequence[Numbers | float]) -> tuple[tuple[str, ...] | None, ...]:
    """The names in each dictionary of numbers, None for a number."""
    return tuple(tuple(x) if isinstance(x, dict) else None for x in numbers)


def _as_arguments(names: tuple[tuple[str, ...] | None, ...], numbers: Tensor) -> Iterator[Any]:
    """The arguments of a kernel from one vector."""
    at = 0
    for group in names:
        if group is None:
            yield numbers[at]
        else:
            yield {name: numbers[at + i] for i, name in enumerate(group)}
        at += 1 if group is None else len(group)


@cache
def _compiled(
    kernel: Kernel,
    rule: ModuleType,
    dtype: torch.dtype,
    names: tuple[tuple[str, ...] | None, ...],
    places: tuple[int, ...],
) -> Callable[..., None]:
    def run(vectors: Sequence[Tensor], others: Sequence[Tensor], numbers: Tensor) -> None:
        results = kernel(rule, vectors, *_as_arguments(names, numbers))
        rest = iter(others)
        for i, result in zip(places, results, strict=False):
            (vectors[i] if i >= 0 else next(rest)).copy_(result)

    def in_chunks(vectors: Sequence[Tensor], others: Sequence[Tensor], numbers: Tensor) -> None:
        rest = iter(others)
        targets = [vectors[i] if i >= 0 else next(rest) for i in places]
        Chunked().run(lambda rule, cuts: kernel(rule, cuts, *_as_arguments(names, numbers)), rule, vectors, targets)

    run.__name__ = kernel.__name__
    return _what_works(run, in_chunks)


@cache
def _compiled_draw() -> Callable[..., None]:
    return _what_works(gaussian_pairs_, Chunked().draw)


def _what_works(run: Callable[..., None], otherwise: Callable[..., None]) -> Callable[..., None]:
    what, but = "the optimizer's arithmetic", "so its steps are slower"
    return compiling.compiled(run, what=what, but=but, otherwise=otherwise, dynamic=True, fullgraph=True)
