"""Optimizers whose curvature is the reparameterised estimate ĝ∘ε/σ: VON, IVON and BBVI."""

from __future__ import annotations

from vadam import curvature
from vadam.optim.base import VariationalOptimizer
from vadam.optim.estimate import Grads
from vadam.optim.sample import Sample


class Reparameterised(VariationalOptimizer):
    """ĥ = ĝ∘ε/σ, with the sample's noise drawn again from its seed; ĝ∘ĝ for weights that are not sampled."""

    curvature_degree = 1

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        h = {p: curvature.magnitude(g) for p, g in grads.items() if all(p is not q for q in sample.params)}
        for (group, p), eps in zip(self._sampled(), self._noise(sample), strict=True):
            if p in grads:
                h[p] = curvature.reparameterised(grads[p].to(eps.dtype), eps, self._sampling_precision(group, p))
        return h
