"""Run a rule with torch's own operators: any device, any dtype, no read from the device. The reference for the other backends.

    perturb   θ ← μ + ε/√(precision + extra)               ε from torch's generator of the device
    restore   θ ← μ
    products  ĥ = ĝ∘ε/σ = ĝ∘(θ − μ)∘(precision + extra)
    update    state ← rule.update(state, ĝ, ĥ)

Each bucket is one vector, so the number of operations does not depend on the number of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket
from vadam.backends.noise import NoiseSource, Normal
from vadam.backends.shards import whole
from vadam.rules.binding import Letters, call, scope

CHUNK = 1 << 16  # weights that a CPU computes at a time: temporaries stay in the cache

Grads = dict[Tensor, Tensor]
Scalars = dict[str, Any]
Values = tuple[list[Tensor], Scalars]


def perturbed(rule: ModuleType, vectors: Sequence[Tensor], scalars: Scalars, letters: Letters, sign: float) -> Values:
    """Return θ = μ ± ε/√(precision + extra) of the vectors μ, state, ε."""
    *state_vectors, eps = vectors
    mu, state = state_vectors[0], _state(rule, state_vectors, scalars)
    if hasattr(rule, "deviation"):
        return [mu + sign * call(rule.deviation, state, eps, letters=letters)], {}
    precision = call(rule.precision, state, letters=letters) + letters.get("sampling_precision", 0.0)
    return [mu + sign * eps * precision.rsqrt()], {}


def updated(
    rule: ModuleType, vectors: Sequence[Any], scalars: Scalars, letters: Letters, accept: Tensor | None
) -> Values:
    """Return the new mean and state of the vectors μ, state, ĝ, ĥ (None for ĝ∘ĝ); where ``accept`` is False, the old ones."""
    *state_vectors, g, h = vectors
    new = call(rule.update, _state(rule, state_vectors, scalars), g, g * g if h is None else h, letters=letters)
    values = [getattr(new, name) for name in rule.State._fields if name not in scalars]
    if accept is not None:
        values = [torch.where(accept, value, old) for value, old in zip(values, state_vectors, strict=True)]
    return values, {name: getattr(new, name) for name in scalars}


def _state(rule: ModuleType, vectors: Sequence[Tensor], scalars: Scalars) -> Any:
    names = [name for name in rule.State._fields if name not in scalars]
    return rule.State(**dict(zip(names, vectors, strict=True)), **scalars)


def curvature_vector(bucket: Bucket, curvatures: Grads, scale: Grads | None) -> Tensor | None:
    """Return ĥ of a bucket times the factors of its parameters, None where no curvature is given."""
    if bucket.params[0] not in curvatures:
        return None
    if scope(bucket.rule) == "model":
        return curvatures[bucket.params[0]]
    h = bucket.gather([curvatures[p] for p in bucket.params])
    if scale is None:
        return h
    factors = [scale[p].to(h.dtype).expand(n) for p, n in zip(bucket.params, bucket.sizes, strict=True)]
    return h * torch.cat(factors).view(h.shape)


class Plain:
    """Runs rules bucket by bucket."""

    def draw(self, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool) -> PlainDraw:
        """Return a sample of the weights; ``perturb`` writes it to the parameters."""
        return PlainDraw(self, buckets, noise, sign, keep_mean=keep_mean)

    def update(
        self,
        buckets: list[Bucket],
        grads: Grads,
        curvatures: Grads,
        *,
        draw: PlainDraw | None = None,
        scale: Grads | None = None,
        accept: Tensor | None = None,
    ) -> None:
        """Apply the rule to buckets whose parameters all have a gradient; ĥ is ĝ∘ĝ where no curvature is given.

        ``draw``: the sample that the parameters may still hold. ``scale``: a factor of each parameter's curvature, on the device.
        ``accept``: a flag on the device; where it is False no vector changes.
        """
        if draw is not None:
            draw.restore()
        for bucket in buckets:
            mu = bucket.gather(bucket.params)
            g = bucket.gather([grads[p] for p in bucket.params])
            h = curvature_vector(bucket, curvatures, scale)
            states = bucket.vectors()
            vectors = [mu, *(bucket.gather_state(tensors) for tensors in states), g, h]
            new, scalars = self._in_parts(updated, bucket, vectors, 1 + len(states), accept)
            for vector, tensors in zip(new, [bucket.params, *states], strict=True):
                bucket.scatter(vector, tensors)
            bucket.set_scalars(scalars)

    def norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the norm of each of some tensors on one device, in the widest of their dtypes and at least in float32."""
        dtype = torch.float64 if any(x.dtype is torch.float64 for x in tensors) else torch.float32
        return torch.stack([whole(norm) for norm in torch._foreach_norm(list(tensors), 2, dtype)])

    def precision(self, bucket: Bucket, mu: Tensor) -> Tensor:
        """Return the precision of the posterior as one vector."""
        vectors = [mu, *(bucket.gather_state(tensors) for tensors in bucket.vectors())]
        return call(bucket.rule.precision, _state(bucket.rule, vectors, bucket.scalars()), letters=bucket.letters)

    def sample(self, bucket: Bucket, mu: Tensor, noise: NoiseSource, index: int, sign: float) -> Tensor:
        """Return μ ± ε/√(precision + extra); a vector of several chunks is overwritten."""
        normal = noise.normal(index, bucket.device, bucket.dtype)
        vectors = [mu, *(bucket.gather_state(tensors) for tensors in bucket.vectors())]
        return self._in_parts(perturbed, bucket, vectors, 1, sign, normal=normal)[0][0]

    def evaluate(self, function: Callable[..., Values], *arguments: Any) -> Values:
        """Compute one part of a bucket. Another backend may compile the function."""
        return function(*arguments)

    def _in_parts(
        self,
        function: Callable[..., Values],
        bucket: Bucket,
        vectors: list[Any],
        results: int,
        argument: Any,
        normal: Normal | None = None,
    ) -> Values:
        """Compute new values of the first vectors: at once, or on a CPU chunk by chunk in their place."""

        def evaluate(parts: list[Any]) -> Values:
            noise = [] if normal is None else [normal(parts[0].numel()).view_as(parts[0])]
            return self.evaluate(function, bucket.rule, [*parts, *noise], bucket.scalars(), bucket.letters, argument)

        size = bucket.size
        if bucket.device.type != "cpu" or scope(bucket.rule) != "weight" or size <= CHUNK:
            return evaluate(vectors)
        # torch shares a chunk between two threads. What is left over is cut in halves, so that no number of threads rounds otherwise.
        rest = size - size % CHUNK
        scalars: Scalars = {}
        for start, end in pairwise([*range(0, rest, CHUNK), *range(rest, size, CHUNK // 2), size]):
            parts = [None if x is None else x[start:end] for x in vectors]
            new, scalars = evaluate(parts)
            torch._foreach_copy_(parts[:results], new)
        return vectors[:results], scalars


class PlainDraw:
    """One sample of the weights: keeps the means while the parameters hold the sample, and the sample while it is put aside."""

    def __init__(
        self, backend: Plain, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool
    ) -> None:
        self.buckets = buckets
        self._backend, self._noise, self._sign, self._keep_mean = backend, noise, sign, keep_mean
        self._means: list[Tensor | None] = []  # of the buckets that hold the sample; None where it is drawn again
        self._samples: list[Tensor] = []  # of all buckets, while it is put aside

    def perturb(self) -> None:
        """Let the parameters hold the sample."""
        for i, bucket in enumerate(self.buckets):
            mu = bucket.gather(bucket.params)
            keep = self._keep_mean or bucket.dtype != bucket.params[0].dtype  # half precision would not come back
            overwritten = bucket.is_view(mu) or bucket.size > CHUNK
            mean = None if not keep else mu.clone() if overwritten else mu
            theta = self._samples[i] if self._samples else self._backend.sample(bucket, mu, self._noise, i, self._sign)
            self._means.append(mean)
            bucket.scatter(theta, bucket.params)
        self._samples = []

    def restore(self, *, put_aside: bool = False) -> None:
        """Let the parameters hold the means again; interrupted, it can be called again."""
        if put_aside and not self._samples:
            self._samples = [bucket.gather(bucket.params).clone() for bucket in self.buckets]
        while self._means:  # the last bucket first: parameters may share their memory
            i = len(self._means) - 1
            mean = self._mean(i)
            self.buckets[i].scatter(mean, self.buckets[i].params)
            self._means.pop()

    def mean_of(self, p: Tensor) -> Tensor | None:
        """Return the mean of a parameter, None if it holds it."""
        for i, bucket in enumerate(self.buckets[: len(self._means)]):
            if any(p is q for q in bucket.params):
                copies = [torch.empty_like(q) for q in bucket.params]
                bucket.scatter(self._mean(i), copies)
                return next(copy for q, copy in zip(bucket.params, copies, strict=True) if q is p)
        return None

    def products(self, grads: Grads) -> Grads:
        """Return ĝ∘ε/σ of every parameter that has a gradient."""

        def of(bucket: Bucket, deviation: Tensor, precision: Tensor) -> Tensor:
            g = [grads[p] if p in grads else torch.zeros_like(p) for p in bucket.params]
            return bucket.gather(g) * deviation * precision

        return {p: h for p, h in self._of_each(of).items() if p in grads}

    def noise(self) -> Grads:
        """Return ε of every parameter."""
        return self._of_each(lambda bucket, deviation, precision: deviation * precision.sqrt())

    def _of_each(self, function: Callable[[Bucket, Tensor, Tensor], Tensor]) -> Grads:
        """Return a function of the deviation θ − μ and the precision of the sample, for each parameter."""
        values: Grads = {}
        for i, bucket in enumerate(self.buckets):
            deviation = self._deviation(i)
            precision = self._backend.precision(bucket, deviation) + bucket.letters.get("sampling_precision", 0.0)
            targets = [torch.empty_like(p, dtype=bucket.dtype) for p in bucket.params]
            bucket.scatter(function(bucket, deviation, precision), targets)
            values |= dict(zip(bucket.params, targets, strict=True))
        return values

    def _deviation(self, i: int) -> Tensor:
        held = self.buckets[i].gather(self.buckets[i].params)
        return self._samples[i] - held if self._samples else held - self._mean(i)

    def _mean(self, i: int) -> Tensor:
        """Return the mean of a bucket that holds the sample, drawing the noise again if it was not kept."""
        mean, bucket = self._means[i], self.buckets[i]
        if mean is None:
            mean = self._backend.sample(bucket, bucket.gather(bucket.params).clone(), self._noise, i, -self._sign)
        return mean
