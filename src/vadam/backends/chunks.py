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
CHUNK = 3 * GRAIN  # weights that a CPU computes at a time

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

        def evaluate(parts: Vectors, args: RuleArgs) -> Values:
            noise = {} if normal is None else {"eps": normal(parts["mu"].numel()).view_as(parts["mu"])}
            return self.evaluate(function, rule, parts | noise, scalars, rule_args | args, argument)

        if scope(rule) != "weight":
            with full_precision(bucket.device):
                return evaluate(vectors, {})
        if bucket.device.type != "cpu" or size <= GRAIN:
            return evaluate(vectors, {})
        # One, two or three threads share a chunk at multiples of 64, and none what is left over: all numbers of threads round alike.
        rest = size - size % CHUNK
        sizes = [end - start for start, end in pairwise([*range(0, rest, CHUNK), *range(rest, size, GRAIN), size])]
        args = {name: rule_args[name].split(sizes) for name in bucket.args_per_weight}
        chunks = {name: x.split(sizes) for name, x in vectors.items()}
        new_scalars: Scalars = {}
        for i in range(len(sizes)):
            chunk = {name: x[i] for name, x in chunks.items()}
            new, new_scalars = evaluate(chunk, {name: x[i] for name, x in args.items()})
            torch._foreach_copy_([chunk[name] for name in results], new)
        return [vectors[name] for name in results], new_scalars
