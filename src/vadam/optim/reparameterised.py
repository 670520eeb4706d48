"""Optimizers whose curvature is the reparameterised estimate ĝ∘ε/σ: VON, IVON and BBVI."""

from __future__ import annotations

from vadam.backends.bucket import Grads
from vadam.backends.noise import several_ranks
from vadam.backends.shards import is_replicated
from vadam.optim.base import VariationalOptimizer
from vadam.optim.distributed import LocalGradients
from vadam.optim.rule_optimizer import Group
from vadam.optim.sample import Owner, Sample


class Reparameterised(VariationalOptimizer):
    """ĥ = ĝ∘ε/σ; ĝ∘ĝ for weights that are not sampled.

    Where the model is replicated, ĝ is the mean over ranks but ε is a rank's own: each rank then multiplies its own gradient.
    """

    curvature_degree = 1
    _local: LocalGradients | None = None

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; under FSDP2 every weight must be on one rank."""
        super().add_param_group(param_group)
        if any(is_replicated(p) for p in self.param_groups[-1]["params"]):
            self.param_groups.pop()
            raise ValueError(
                f"{type(self).__name__} multiplies the gradient with the noise, and several ranks with their own noise hold the same "
                f"weights: shard them over all ranks (a mesh of one dimension), or use DistributedDataParallel, or Vadam"
            )

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        sampled = set(sample.params)
        points = {p: g for p, g in grads.items() if p not in sampled}
        return super()._curvatures(sample, points) | sample.draw.products(grads)

    def _open_sample(self, owner: Owner) -> Sample:
        if self._attachment is None and several_ranks():
            raise RuntimeError(
                f"{type(self).__name__} multiplies a rank's own gradient with its own noise, so under torch.distributed it must see "
                f"the model: call opt.attach(model) once, with the DistributedDataParallel module if there is one"
            )
        sample = super()._open_sample(owner)
        if self._attachment is not None and self._attachment.replicas is not None and self._local is None:
            weights = self._weights
            self._local = LocalGradients(sample.params, lambda: weights.sample is not None)
        return sample

    def _captured(self, sample: Sample) -> Grads | None:
        local, self._local = self._local, None
        return None if local is None else sample.draw.products(local.take())
