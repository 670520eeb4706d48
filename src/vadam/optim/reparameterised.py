"""Optimizers whose curvature is the reparameterised estimate ĝ∘ε/σ: VON, IVON and BBVI."""

from __future__ import annotations

import torch

from vadam.optim.base import VariationalOptimizer
from vadam.optim.distributed import LocalGradients, several_ranks, sharded_like
from vadam.optim.estimate import Grads
from vadam.optim.kernels import Task, reparameterise
from vadam.optim.native import engine
from vadam.optim.sample import Sample


class Reparameterised(VariationalOptimizer):
    """ĥ = ĝ∘ε/σ, with the sample's noise drawn again from its seed; ĝ∘ĝ for weights that are not sampled.

    Where the model is replicated, ĝ is the mean over ranks but ε is a rank's own: each rank then multiplies its own gradient.
    """

    curvature_degree = 1
    _local: LocalGradients | None = None

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        sampled = set(sample.params)
        points = {p: g for p, g in grads.items() if p not in sampled}
        return super()._curvatures(sample, points) | self._products(sample, grads)

    def _products(self, sample: Sample, grads: Grads) -> Grads:
        tasks: list[Task] = []
        h: Grads = {}
        for i, piece in enumerate(sample.pieces):
            if any(p in grads for p in piece.params):
                g = [grads[p] if p in grads else torch.zeros_like(p) for p in piece.params]
                products = torch.empty(piece.size, dtype=piece.dtype, device=piece.params[0].device)
                numbers = [*self._precision_letters(piece), sample.sign]
                tasks.append(Task(piece, [g, *self._stored(piece).vectors], [products], numbers, i))
                split = zip(piece.params, piece.split(products), strict=True)
                h |= {p: sharded_like(p, x) for p, x in split if p in grads}
        engine(self.compile)(reparameterise, tasks, sample.seed)
        return h

    def _open_sample(self, how: str) -> None:
        if self._attachment is None and several_ranks():
            raise RuntimeError(
                f"{type(self).__name__} multiplies a rank's own gradient with its own noise, so under torch.distributed it must see "
                f"the model: call opt.attach(model) once, with the DistributedDataParallel module if there is one"
            )
        super()._open_sample(how)
        replicated = self._attachment is not None and self._attachment.replicas is not None
        if replicated and self._local is None and self._sample is not None:
            self._local = LocalGradients(self._sample.params, lambda: self._sample is not None)

    def _captured(self, sample: Sample) -> Grads | None:
        local, self._local = self._local, None
        return None if local is None else self._products(sample, local.take())
