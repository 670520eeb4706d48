"""Run a rule with torch's own operators: any device, any dtype, no read from the device. The reference for the other backends.

    perturb   θ ← μ + ε/√(precision + extra)               ε from torch's generator of the device
    restore   θ ← μ
    products  ĥ = ĝ∘ε/σ = ĝ∘(θ − μ)∘(precision + extra)
    update    state ← rule.update(state, ĝ, ĥ)

Each bucket is one vector, so the number of operations does not depend on the number of tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket, Grads
from vadam.backends.noise import NoiseSource, Normal
from vadam.backends.shards import whole
from vadam.rules.binding import RuleArgs, call, precision_fields, scope, state_of, vector_fields

CHUNK = 1 << 16  # weights that a CPU computes at a time: temporaries stay in the cache

Vectors = dict[str, Any]
Scalars = dict[str, Any]
Values = tuple[list[Tensor], Scalars]


def perturbed(rule: ModuleType, vectors: Vectors, scalars: Scalars, rule_args: RuleArgs, sign: float) -> Values:
    """Return θ = μ ± ε/√(precision + extra)."""
    state, mu = state_of(rule, vectors, scalars), vectors["mu"]
    eps = vectors["eps"] if isinstance(sign, float) and sign == 1 else sign * vectors["eps"]
    if hasattr(rule, "deviation"):
        return [mu + call(rule.deviation, state, eps, rule_args=rule_args)], {}
    return [torch.addcmul(mu, eps, sampling_precision(rule, state, rule_args).rsqrt())], {}


def updated(rule: ModuleType, vectors: Vectors, scalars: Scalars, rule_args: RuleArgs, accept: Tensor | None) -> Values:
    """Return the new mean and state; where ``accept`` is False, the old ones. No ĥ stands for ĝ∘ĝ."""
    fields = [name for name in rule.State._fields if name not in scalars]
    old = [vectors[name] for name in fields]
    g, h = vectors["g"], vectors.get("h")
    new = call(rule.update, state_of(rule, vectors, scalars), g, g * g if h is None else h, rule_args=rule_args)
    values = [getattr(new, name) for name in fields]
    if accept is not None and scope(rule) == "weight":
        values = list(torch.where(accept, torch.cat(values), torch.cat(old)).split(g.numel()))
    elif accept is not None:
        values = [torch.where(accept, value, before) for value, before in zip(values, old, strict=True)]
    return values, {name: getattr(new, name) for name in scalars}


def sampling_precision(rule: ModuleType, state: Any, rule_args: RuleArgs) -> Tensor:
    """Return the precision of the sampled weights: that of the posterior, and the extra one for sampling only."""
    precision, extra = call(rule.precision, state, rule_args=rule_args), rule_args["sampling_precision"]
    return precision if isinstance(extra, float) and not extra else precision + extra


def curvature_vector(bucket: Bucket, curvatures: Grads, scale: Grads | None) -> Tensor:
    """Return ĥ of a bucket times the factors of its parameters."""
    if scope(bucket.rule) == "model":
        return curvatures[bucket.params[0]]
    (h,) = bucket.gather([curvatures[p] for p in bucket.params])
    if scale is None:
        return h
    factors = [scale[p].to(h.dtype).expand(n) for p, n in zip(bucket.params, bucket.sizes, strict=True)]
    return h * torch.cat(factors).view(h.shape)


class Plain:
    """Runs rules bucket by bucket."""

    def draw(self, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool) -> PlainDraw:
        """Return a sample of the weights; ``perturb`` writes it to the parameters."""
        parts = [part for bucket in buckets for part in bucket.parts()]
        return PlainDraw(self, parts, noise, sign, keep_mean=keep_mean)

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
        for bucket in [part for whole_bucket in buckets for part in whole_bucket.parts()]:
            names = vector_fields(bucket.rule)
            slots = {name: bucket.field(name) for name in names} | {"g": [grads[p] for p in bucket.params]}
            mean = None if draw is None else draw.mean_vector(bucket)
            if mean is None:
                slots["mu"] = bucket.params
            has_curvature = bucket.params[0] in curvatures
            if has_curvature and scale is None and scope(bucket.rule) != "model":
                slots["h"] = [curvatures[p] for p in bucket.params]
            vectors: Vectors = dict(zip(slots, bucket.gather(*slots.values()), strict=True))
            vectors.setdefault("mu", mean)
            if has_curvature and "h" not in vectors:
                vectors["h"] = curvature_vector(bucket, curvatures, scale)
            here = accept if accept is None or accept.device == bucket.device else accept.to(bucket.device)
            new, scalars = self._in_parts(updated, bucket, vectors, ["mu", *names], here)
            bucket.scatter(new, bucket.params, *[slots[name] for name in names])
            bucket.set_scalars(scalars)
            if draw is not None:
                draw.forget(bucket)
        if draw is not None:
            draw.restore()  # parameters without a gradient

    def norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the norm of each of some tensors on one device, in the widest of their dtypes and at least in float32."""
        dtype = torch.float64 if any(x.dtype is torch.float64 for x in tensors) else torch.float32
        return torch.stack([whole(norm) for norm in torch._foreach_norm(list(tensors), 2, dtype)])

    def first_above(self, bound: float, tensors: Sequence[Tensor]) -> int | None:
        """Return the position of the first of some tensors on the CPU whose norm is not below a bound; None if all are."""
        if not tensors:
            return None
        fine = self.norms(tensors) < bound
        return None if bool(fine.all()) else int(fine.logical_not().nonzero()[0])

    def precision(self, bucket: Bucket) -> Tensor:
        """Return the precision of the posterior as one vector."""
        state = state_of(bucket.rule, self.precision_vectors(bucket), bucket.scalars())
        return call(bucket.rule.precision, state, rule_args=bucket.vector_args())

    def precision_vectors(self, bucket: Bucket, *slots: Sequence[Tensor]) -> Vectors:
        """Gather the vectors that the precision depends on; further lists of tensors come under their numbers."""
        names = precision_fields(bucket.rule)
        own = [bucket.params if name == "mu" else bucket.field(name) for name in names]
        return dict(zip([*names, *map(str, range(len(slots)))], bucket.gather(*own, *slots), strict=True))

    def sample(self, bucket: Bucket, vectors: Vectors, noise: NoiseSource, index: int, sign: float) -> Tensor:
        """Return μ ± ε/√(precision + extra); a mean of several chunks is overwritten."""
        normal = noise.normal(index, bucket.device, bucket.dtype)
        return self._in_parts(perturbed, bucket, vectors, ["mu"], sign, normal=normal)[0][0]

    def evaluate(self, function: Callable[..., Values], *arguments: Any) -> Values:
        """Compute one part of a bucket. Another backend may compile the function."""
        return function(*arguments)

    def _in_parts(
        self,
        function: Callable[..., Values],
        bucket: Bucket,
        vectors: Vectors,
        results: list[str],
        argument: Any,
        normal: Normal | None = None,
    ) -> Values:
        """Compute new values of some vectors: at once, or on a CPU chunk by chunk in their place."""
        rule_args = bucket.vector_args()

        def evaluate(parts: Vectors, args: RuleArgs) -> Values:
            noise = {} if normal is None else {"eps": normal(parts["mu"].numel()).view_as(parts["mu"])}
            return self.evaluate(function, bucket.rule, parts | noise, bucket.scalars(), args, argument)

        size = bucket.size
        if bucket.device.type != "cpu" or scope(bucket.rule) != "weight" or size <= CHUNK:
            return evaluate(vectors, rule_args)
        # torch shares a chunk between two threads. What is left over is cut in halves, so that no number of threads rounds otherwise.
        rest = size - size % CHUNK
        scalars: Scalars = {}
        for start, end in pairwise([*range(0, rest, CHUNK), *range(rest, size, CHUNK // 2), size]):
            parts = {name: x[start:end] for name, x in vectors.items()}
            cut = {name: rule_args[name][start:end] for name in bucket.args_per_weight}
            new, scalars = evaluate(parts, rule_args | cut)
            torch._foreach_copy_([parts[name] for name in results], new)
        return [vectors[name] for name in results], scalars


class PlainDraw:
    """One sample of the weights: keeps the means while the parameters hold the sample, and the sample while it is put aside."""

    def __init__(
        self, backend: Plain, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool
    ) -> None:
        self.buckets = buckets
        self._backend, self._noise, self._sign, self._keep_mean = backend, noise, sign, keep_mean
        self._means: dict[int, Tensor | None] = {}  # of the buckets that hold the sample; None where it is drawn again
        self._samples: list[Tensor] = []  # of all buckets, while it is put aside

    def perturb(self) -> None:
        """Let the parameters hold the sample."""
        for i, bucket in enumerate(self.buckets):
            vectors = self._vectors(bucket)
            mu = vectors["mu"]
            keep = self._keep_mean or bucket.dtype != bucket.params[0].dtype  # half precision would not come back
            overwritten = bucket.is_view(mu) or bucket.size > CHUNK
            mean = None if not keep else mu.clone() if overwritten else mu
            keep_sample = self._samples[i] if self._samples else None
            theta = (
                self._backend.sample(bucket, vectors, self._noise, i, self._sign)
                if keep_sample is None
                else keep_sample
            )
            self._means[i] = mean
            bucket.scatter([theta], bucket.params)
        self._samples = []

    def restore(self, *, keep_sample: bool = False) -> None:
        """Let the parameters hold the means again; interrupted, it can be called again."""
        if keep_sample and not self._samples:
            held = [bucket.gather(bucket.params)[0] for bucket in self.buckets]
            self._samples = [x.clone() if b.is_view(x) else x for x, b in zip(held, self.buckets, strict=True)]
        while self._means:  # the last bucket first: parameters may share their memory
            i = max(self._means)
            self.buckets[i].scatter([self._mean(i)], self.buckets[i].params)
            del self._means[i]

    def mean_of(self, p: Tensor) -> Tensor | None:
        """Return the mean of a parameter, None if it holds it."""
        for i, bucket in enumerate(self.buckets):
            if i in self._means and any(p is q for q in bucket.params):
                copies = [torch.empty_like(q) for q in bucket.params]
                bucket.scatter([self._mean(i)], copies)
                return next(copy for q, copy in zip(bucket.params, copies, strict=True) if q is p)
        return None

    def mean_vector(self, bucket: Bucket) -> Tensor | None:
        """Return the means of a bucket that an update is going to overwrite; None if it holds them."""
        i = self._index(bucket)
        if i is None:
            self.restore()  # in other buckets, if at all
        return None if i is None else self._mean(i)

    def forget(self, bucket: Bucket) -> None:
        """Do not restore a bucket that an update has overwritten."""
        i = self._index(bucket)
        if i is not None:
            del self._means[i]

    def products(self, grads: Grads) -> Grads:
        """Return ĝ∘ε/σ of every parameter that has a gradient."""
        h: Grads = {}
        for i, bucket in enumerate(self.buckets):
            g = [grads[p] if p in grads else torch.zeros_like(p) for p in bucket.params]
            deviation, precision, vector = self._deviation(i, g)
            h |= dict(zip(bucket.params, bucket.split(vector * deviation * precision), strict=True))
        return {p: x for p, x in h.items() if p in grads}

    def noise(self) -> Grads:
        """Return ε of every parameter."""
        noise: Grads = {}
        for i, bucket in enumerate(self.buckets):
            deviation, precision = self._deviation(i)
            noise |= dict(zip(bucket.params, bucket.split(deviation * precision.sqrt()), strict=True))
        return noise

    def _index(self, bucket: Bucket) -> int | None:
        """Return the number of the bucket with the same parameters, if it holds the sample."""
        for i in self._means:
            own = self.buckets[i]
            same = len(own.params) == len(bucket.params) and all(map(operator.is_, own.params, bucket.params))
            if same and own.orders == bucket.orders and own.dtype == bucket.dtype:
                return i
        return None

    def _vectors(self, bucket: Bucket, *slots: Sequence[Tensor]) -> Vectors:
        """Gather the mean or sample that the parameters hold, and what the precision depends on."""
        vectors = self._backend.precision_vectors(bucket, *slots, bucket.params)
        vectors["mu"] = vectors.pop(str(len(slots)))
        return vectors

    def _deviation(self, i: int, *slots: Sequence[Tensor]) -> list[Tensor]:
        """Return θ − μ and the precision of a bucket, whichever of θ and μ it holds, and further tensors as vectors."""
        bucket = self.buckets[i]
        vectors = self._vectors(bucket, *slots)
        held, further = vectors["mu"], [vectors.pop(str(k)) for k in range(len(slots))]
        deviation = self._samples[i] - held if self._samples else held - self._mean(i)
        state = state_of(bucket.rule, vectors, bucket.scalars())
        return [deviation, sampling_precision(bucket.rule, state, bucket.vector_args()), *further]

    def _mean(self, i: int) -> Tensor:
        """Return the mean of a bucket that holds the sample, drawing the noise again if it was not kept."""
        mean, bucket = self._means[i], self.buckets[i]
        if mean is None:
            vectors = self._vectors(bucket)
            vectors["mu"] = vectors["mu"].clone()
            mean = self._backend.sample(bucket, vectors, self._noise, i, -self._sign)
        return mean
