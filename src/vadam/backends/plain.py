"""Run a rule with torch's own operators: any device, any dtype, no read from the device. The reference for the other backends.

    perturb   θ ← μ + ε/√(precision + extra)               ε from torch's generator of the device
    restore   θ ← μ
    products  ĥ = ĝ∘ε/σ = ĝ∘(θ − μ)∘(precision + extra)
    update    state ← rule.update(state, ĝ, ĥ)

Each bucket is one vector, so the number of operations does not depend on the number of tensors.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket, Grads, Vectors
from vadam.backends.chunks import ChunkedBackend, Scalars, Values
from vadam.backends.measures import curvature_vector, sampling_precision
from vadam.backends.noise import NoiseSource
from vadam.backends.plain_draw import PlainDraw
from vadam.backends.terms import value
from vadam.rules.binding import RuleArgs, call, scope, state_of, vector_fields


def perturbed(rule: ModuleType, vectors: Vectors, scalars: Scalars, rule_args: RuleArgs, sign: float) -> Values:
    """Return θ = μ ± ε/√(precision + extra)."""
    state, mu, eps = state_of(rule, vectors, scalars), vectors["mu"], sign * vectors["eps"]
    if hasattr(rule, "deviation"):
        return [mu + call(rule.deviation, state, eps, rule_args=rule_args)], {}
    return [value(mu + eps * sampling_precision(rule, state, rule_args).rsqrt())], {}


def updated(rule: ModuleType, vectors: Vectors, scalars: Scalars, rule_args: RuleArgs, accept: Tensor | None) -> Values:
    """Return the new mean and state; where ``accept`` is False, the old ones. No ĥ stands for ĝ∘ĝ."""
    fields = [name for name in rule.State._fields if name not in scalars]
    g, h = vectors["g"], vectors.get("h")
    new = call(rule.update, state_of(rule, vectors, scalars), g, g * g if h is None else h, rule_args=rule_args)
    values = [value(getattr(new, name)) for name in fields]
    if accept is not None:
        old = [value(vectors[name]) for name in fields]
        values = [torch.where(accept, after, before) for after, before in zip(values, old, strict=True)]
    return values, {name: getattr(new, name) for name in scalars}


def multiplied(rule: ModuleType, vectors: Vectors, scalars: Scalars, rule_args: RuleArgs, _: None) -> Values:
    """Return ĝ∘ε/σ, given θ − μ."""
    precision = sampling_precision(rule, state_of(rule, vectors, scalars), rule_args)
    return [value(vectors["g"] * vectors["deviation"] * precision)], {}


class Plain(ChunkedBackend):
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
            new, scalars = self._in_chunks(updated, bucket, vectors, ["mu", *names], here)
            bucket.scatter(new, bucket.params, *[slots[name] for name in names])
            bucket.set_scalars(scalars)
            if draw is not None:
                draw.forget(bucket)
        if draw is not None:
            draw.restore()  # parameters without a gradient

    def sample(self, bucket: Bucket, vectors: Vectors, noise: NoiseSource, index: int, sign: float) -> Tensor:
        """Return μ ± ε/√(precision + extra); a mean of several chunks is overwritten."""
        normal = noise.normal(index, bucket.device, bucket.dtype)
        return self._in_chunks(perturbed, bucket, vectors, ["mu"], sign, normal=normal)[0][0]

    def product(self, bucket: Bucket, vectors: Vectors, g: Tensor, deviation: Tensor) -> Tensor:
        """Return ĝ∘ε/σ, given θ − μ, which may be overwritten."""
        if scope(bucket.rule) != "weight":
            return super().product(bucket, vectors, g, deviation)
        return self._in_chunks(multiplied, bucket, vectors | {"g": g, "deviation": deviation}, ["deviation"], None)[0][
            0
        ]
