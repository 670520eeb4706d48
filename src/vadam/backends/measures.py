"""Norms, precisions and curvatures of the weights, by torch's own operators."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket, Grads, Vectors
from vadam.backends.shards import whole
from vadam.rules.binding import RuleArgs, call, precision_fields, scope, state_of


class Measures:
    """Measures that a backend takes of its buckets besides drawing and updating them."""

    def norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the norm of each of some tensors on one device, in the widest of their dtypes and at least in float32."""
        dtype = torch.float64 if any(x.dtype is torch.float64 for x in tensors) else torch.float32
        return torch.stack([whole(norm) for norm in torch._foreach_norm(list(tensors), 2, dtype)])

    def first_above(self, bound: float, kinds: Sequence[Grads]) -> int | None:
        """Return the position of the first tensor, all on the CPU, whose norm is not below a bound; None if all are."""
        tensors = [x for of_kind in kinds for x in of_kind.values()]
        if not tensors:
            return None
        fine = self.norms(tensors) < bound
        return None if bool(fine.all()) else int(fine.logical_not().nonzero()[0])

    def precision(self, bucket: Bucket) -> Tensor:
        """Return the precision of the posterior as one vector."""
        state = state_of(bucket.rule, self.precision_vectors(bucket), bucket.scalars())
        return call(bucket.rule.precision, state, rule_args=bucket.vector_args())

    def sampling_precision(self, bucket: Bucket, vectors: Vectors) -> Tensor:
        """Return the precision of a bucket's sampled weights, given the vectors that it depends on."""
        return sampling_precision(bucket.rule, state_of(bucket.rule, vectors, bucket.scalars()), bucket.vector_args())

    def moments(self, means: Sequence[Tensor], squares: Sequence[Tensor]) -> None:
        """Return None: torch's operators take means of gradients and of their squares one after the other."""

    def product(self, bucket: Bucket, vectors: Vectors, g: Tensor, deviation: Tensor) -> Tensor:
        """Return ĝ∘ε/σ, given θ − μ: by the rule if it has a basis of its own, otherwise weight by weight."""
        if not hasattr(bucket.rule, "products"):
            return g * deviation * self.sampling_precision(bucket, vectors)
        state = state_of(bucket.rule, vectors, bucket.scalars())
        with full_precision(bucket.device):
            return call(bucket.rule.products, state, g, deviation, rule_args=bucket.vector_args())

    def precision_vectors(self, bucket: Bucket, *slots: Sequence[Tensor]) -> Vectors:
        """Gather the vectors that the precision depends on; further lists of tensors come under their numbers."""
        names = precision_fields(bucket.rule)
        own = [bucket.params if name == "mu" else bucket.field(name) for name in names]
        return dict(zip([*names, *map(str, range(len(slots)))], bucket.gather(*own, *slots), strict=True))


def sampling_precision(rule: ModuleType, state: Any, rule_args: RuleArgs) -> Tensor:
    """Return the precision of the sampled weights: the posterior's, plus ``sampling_precision``."""
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


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context without autocast: a forward pass that draws weights would round their matrix products."""
    available = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if available else nullcontext()
