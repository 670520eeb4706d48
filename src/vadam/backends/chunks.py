"""Compute new values of a bucket's vectors: at once, or on a CPU chunk by chunk, so that temporaries stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket, Vectors
from vadam.backends.measures import Measures, full_precision
from vadam.backends.noise import Normal
from vadam.backends.terms import takes_terms, terms
from vadam.rules.binding import RuleArgs, scope

GRAIN = 1 << 15  # weights below which torch does not share an operation between threads
SHARED = 64 * 420  # weights that up to seven threads share at multiples of 64; fewer than a grain
CHUNK = 8 * SHARED  # weights that a CPU computes at a time; fewer than seven grains, so that no more threads share them
BLOCK = 16 * CHUNK  # weights whose noise one thread draws at a time, while the others wait or compete with it

Scalars = dict[str, Any]
Values = tuple[list[Tensor], Scalars]
"""New vectors, and new scalars of the state."""


class ChunkedBackend(Measures):
    """A backend that applies a function of a rule, its state and its arguments to a bucket."""

    def evaluate(
        self,
        function: Callable[..., Values],
        rule: ModuleType,
        vectors: Vectors,
        scalars: Scalars,
        rule_args: RuleArgs,
        argument: Any,
    ) -> Values:
        """Compute one chunk, by few operations where the rule allows it. Another backend may compile the function."""
        if takes_terms(rule):
            return function(rule, terms(vectors), scalars, terms(rule_args), argument)
        return function(rule, vectors, scalars, rule_args, argument)

    def overwrites(self, bucket: Bucket, mu: Tensor) -> bool:
        """Return True if writing the sample overwrites the vector of the means."""
        return bucket.is_view(mu) or bucket.size > GRAIN

    def _in_chunks(
        self,
        function: Callable[..., Values],
        bucket: Bucket,
        vectors: Vectors,
        results: list[str],
        argument: Any,
        normal: Normal | None = None,
    ) -> Values:
        """Return new values of the vectors named ``results``; those of several chunks are written in their place."""
        rule, scalars, rule_args, size = bucket.rule, bucket.scalars(), bucket.vector_args(), bucket.size

        draw = normal

        def evaluate(parts: Vectors, args: RuleArgs) -> Values:
            noise = {} if draw is None else {"eps": draw(parts["mu"].numel()).view_as(parts["mu"])}
            return self.evaluate(function, rule, parts | noise, scalars, rule_args | args, argument)

        if scope(rule) != "weight":
            with full_precision(bucket.device):
                return evaluate(vectors, {})
        if bucket.device.type != "cpu" or size <= GRAIN:
            return evaluate(vectors, {})
        draw = None if normal is None else _in_blocks(normal, size)
        # Threads share all but the last part, at multiples of 64: all numbers of threads round alike.
        cuts = sorted({*range(0, size, CHUNK), size - size % SHARED, size})
        sizes = [end - start for start, end in pairwise(cuts)]
        args = {name: rule_args[name].split(sizes) for name in bucket.args_per_weight}
        chunks = {name: x.split(sizes) for name, x in vectors.items()}
        new_scalars: Scalars = {}
        for i in range(len(sizes)):
            chunk = {name: x[i] for name, x in chunks.items()}
            new, new_scalars = evaluate(chunk, {name: x[i] for name, x in args.items()})
            torch._foreach_copy_([chunk[name] for name in results], new)
        return [vectors[name] for name in results], new_scalars


def _in_blocks(normal: Normal, size: int) -> Normal:
    """Return a function that cuts the next n numbers from long blocks, for chunks of ``size`` weights altogether."""
    left, block = size, torch.empty(0)

    def draw(n: int) -> Tensor:
        nonlocal left, block
        if not block.numel():
            block = normal(min(BLOCK, left))
            left -= block.numel()
        drawn, block = block[:n], block[n:]
        return drawn

    return draw
