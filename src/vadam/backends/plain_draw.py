"""One sample of the weights on the plain backend: what is kept of it, and how the mean comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vadam.backends.bucket import Bucket, Grads, Vectors, are_same
from vadam.backends.noise import NoiseSource

if TYPE_CHECKING:
    from vadam.backends.plain import Plain


class PlainDraw:
    """One sample of the weights: keeps the means while the parameters hold the sample, and the sample while it is paused."""

    def __init__(
        self, backend: Plain, buckets: list[Bucket], noise: NoiseSource, sign: float, *, keep_mean: bool
    ) -> None:
        self.buckets = buckets
        self._backend, self._noise, self._sign, self._keep_mean = backend, noise, sign, keep_mean
        self._means: dict[int, Tensor | None] = {}  # of the buckets that hold the sample; None where it is drawn again
        self._samples: list[Tensor] = []  # of all buckets, while the sample is paused

    def redraw(self, noise: NoiseSource, sign: float) -> bool:
        """Return False: every sample is drawn anew, from the mean in the parameters."""
        return False

    def perturb(self) -> None:
        """Let the parameters hold the sample."""
        for i, bucket in enumerate(self.buckets):
            vectors = self._vectors(bucket)
            mu = vectors["mu"]
            keep = self._keep_mean or bucket.dtype != bucket.params[0].dtype  # half precision would not come back
            mean = None if not keep else mu.clone() if self._backend.overwrites(bucket, mu) else mu
            kept = self._samples[i] if self._samples else None
            theta = self._backend.sample(bucket, vectors, self._noise, i, self._sign) if kept is None else kept
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
            deviation, vectors, gradient = self._deviation(i, g)
            product = self._backend.product(bucket, vectors, gradient, deviation)
            h |= dict(zip(bucket.params, bucket.split(product), strict=True))
        return {p: x for p, x in h.items() if p in grads}

    def noise(self) -> Grads:
        """Return ε of every parameter."""
        noise: Grads = {}
        for i, bucket in enumerate(self.buckets):
            deviation, vectors = self._deviation(i)
            precision = self._backend.sampling_precision(bucket, vectors)
            noise |= dict(zip(bucket.params, bucket.split(deviation * precision.sqrt()), strict=True))
        return noise

    def _index(self, bucket: Bucket) -> int | None:
        """Return the number of the bucket with the same parameters, if it holds the sample."""
        for i in self._means:
            own = self.buckets[i]
            if are_same(own.params, bucket.params) and own.orders == bucket.orders and own.dtype == bucket.dtype:
                return i
        return None

    def _vectors(self, bucket: Bucket, *slots: Sequence[Tensor]) -> Vectors:
        """Gather the mean or sample that the parameters hold, and what the precision depends on."""
        vectors = self._backend.precision_vectors(bucket, *slots, bucket.params)
        vectors["mu"] = vectors.pop(str(len(slots)))
        return vectors

    def _deviation(self, i: int, *slots: Sequence[Tensor]) -> list[Any]:
        """Return θ − μ and the state's vectors of a bucket, whichever of θ and μ it holds, and further tensors as vectors."""
        bucket = self.buckets[i]
        vectors = self._vectors(bucket, *slots)
        held, further = vectors["mu"], [vectors.pop(str(k)) for k in range(len(slots))]
        deviation = self._samples[i] - held if self._samples else held - self._mean(i)
        return [deviation, vectors, *further]

    def _mean(self, i: int) -> Tensor:
        """Return the mean of a bucket that holds the sample, drawing the noise again if it was not kept."""
        mean, bucket = self._means[i], self.buckets[i]
        if mean is None:
            vectors = self._vectors(bucket)
            vectors["mu"] = vectors["mu"].clone()
            mean = self._backend.sample(bucket, vectors, self._noise, i, -self._sign)
        return mean
